// Plans against what the devices of a small mesh would hold and send, element for element.
#include "tutti/mesh/redistribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "tests/support/error_of.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using Sizes = std::vector<int64_t>;
using Steps = std::vector<RedistributionStep>;
using testing::ElementsAre;
using testing::HasSubstr;
using Kind = RedistributionKind;

struct Interval {
  int64_t begin, end;
  int64_t length() const { return std::max<int64_t>(end - begin, 0); }
};

// A mesh and a value, looked at device by device.
struct Setting {
  Sizes mesh, sizes;

  int64_t num_devices() const { return product(mesh); }
  static int64_t product(const Sizes& sizes) {
    int64_t result = 1;
    for (const int64_t size : sizes) result *= size;
    return result;
  }
  int64_t coordinate(int64_t device, int dimension) const {
    for (size_t d = mesh.size() - 1; d > static_cast<size_t>(dimension); --d) device /= mesh[d];
    return device % mesh[static_cast<size_t>(dimension)];
  }
  // What a device holds along an axis.
  Interval held(const Placement& placement, int64_t device, size_t axis) const {
    const int d = placement.axes[axis];
    if (d < 0) return {0, sizes[axis]};
    const int64_t k = mesh[static_cast<size_t>(d)], piece = (sizes[axis] + k - 1) / k, c = coordinate(device, d);
    return {std::min(c * piece, sizes[axis]), std::min((c + 1) * piece, sizes[axis])};
  }
  int64_t elements(const Placement& placement, int64_t device) const {
    int64_t result = 1;
    for (size_t axis = 0; axis < sizes.size(); ++axis) result *= held(placement, device, axis).length();
    return result;
  }
  int64_t elements_in_both(const Placement& a, const Placement& b, int64_t device) const {
    int64_t result = 1;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      const Interval x = held(a, device, axis), y = held(b, device, axis);
      result *= Interval{std::max(x.begin, y.begin), std::min(x.end, y.end)}.length();
    }
    return result;
  }
  std::string name(const Placement& from, const Placement& to) const {
    return str("mesh ", str_list(mesh), " sizes ", str_list(sizes), " from ", str_list(from.axes), " unreduced ",
               from.unreduced, " to ", str_list(to.axes), " unreduced ", to.unreduced);
  }
};

void all_placements(int num_dimensions, size_t rank, DimensionMask used, Placement now, std::vector<Placement>& found) {
  if (now.axes.size() == rank) {
    for (DimensionMask mask = 0; mask < DimensionMask{1} << num_dimensions; ++mask)
      if (!(mask & used)) found.push_back({now.axes, mask});
    return;
  }
  for (int d = -1; d < num_dimensions; ++d) {
    if (d >= 0 && (used >> d & 1)) continue;
    Placement next = now;
    next.axes.push_back(d);
    all_placements(num_dimensions, rank, d < 0 ? used : used | DimensionMask{1} << d, next, found);
  }
}

std::vector<Placement> all_placements(const Sizes& mesh, size_t rank) {
  std::vector<Placement> found;
  all_placements(static_cast<int>(mesh.size()), rank, 0, {}, found);
  return found;
}

constexpr int64_t kImpossible = std::numeric_limits<int64_t>::max();

// What one collective, or a slice, costs between two placements; kImpossible where it takes more than one.
int64_t cost_of_one_step(const Setting& s, const Placement& a, const Placement& b) {
  std::vector<std::pair<int, int>> changed;  // an axis, and the dimension that it loses or gets
  DimensionMask lost = 0, got = 0;
  for (size_t axis = 0; axis < s.sizes.size(); ++axis) {
    if (a.axes[axis] == b.axes[axis]) continue;
    if (a.axes[axis] >= 0) lost |= DimensionMask{1} << a.axes[axis];
    if (b.axes[axis] >= 0) got |= DimensionMask{1} << b.axes[axis];
    if (a.axes[axis] >= 0 && b.axes[axis] >= 0) return kImpossible;
    changed.emplace_back(static_cast<int>(axis), std::max(a.axes[axis], b.axes[axis]));
  }
  if (b.unreduced & ~a.unreduced) return kImpossible;
  const DimensionMask summed = a.unreduced & ~b.unreduced;
  int64_t cost = 0, terms = 1;
  for (size_t d = 0; d < s.mesh.size(); ++d)
    if (summed >> d & 1) terms *= s.mesh[d];
  for (int64_t device = 0; device < s.num_devices(); ++device) {
    const int64_t before = s.elements(a, device), after = s.elements(b, device);
    if (summed && changed.empty())  // of each group of `terms` devices, as if each counted for itself: 2 (k - 1) / k
      cost += 2 * (terms - 1) * before;
    else if (summed && changed.size() == 1 && got == summed)
      cost += (terms - 1) * after * terms;
    else if (!summed && changed.size() == 1 && got)
      cost += 0;
    else if (!summed && ((changed.size() == 1 && lost) || (changed.size() == 2 && lost == got)))
      cost += (after - s.elements_in_both(a, b, device)) * terms;
    else
      return kImpossible;
  }
  return cost / terms;
}

// The fewest elements received, whatever the steps.
class BruteForce {
 public:
  static constexpr int kSteps = 6;

  explicit BruteForce(const Setting& setting) : all_(all_placements(setting.mesh, setting.sizes.size())) {
    cost_.assign(all_.size(), std::vector<int64_t>(all_.size(), kImpossible));
    for (size_t i = 0; i < all_.size(); ++i)
      for (size_t j = 0; j < all_.size(); ++j) cost_[i][j] = i == j ? 0 : cost_of_one_step(setting, all_[i], all_[j]);
  }
  const std::vector<Placement>& placements() const { return all_; }
  // From placement i to each, in up to 0, 1, …, kSteps steps.
  std::vector<std::vector<int64_t>> cheapest(size_t i) const {
    std::vector<std::vector<int64_t>> best(1, std::vector<int64_t>(all_.size(), kImpossible));
    best[0][i] = 0;
    for (int step = 0; step < kSteps; ++step) {
      std::vector<int64_t> next = best.back();
      for (size_t a = 0; a < all_.size(); ++a)
        for (size_t b = 0; b < all_.size(); ++b)
          if (best.back()[a] != kImpossible && cost_[a][b] != kImpossible)
            next[b] = std::min(next[b], best.back()[a] + cost_[a][b]);
      best.push_back(std::move(next));
    }
    return best;
  }

 private:
  std::vector<Placement> all_;
  std::vector<std::vector<int64_t>> cost_;
};

// Sums, gathers all and slices.
int64_t naive_cost(const Setting& s, const Placement& from, const Placement& to) {
  const Placement summed{from.axes, to.unreduced}, whole{std::vector<int>(s.sizes.size(), -1), to.unreduced};
  int64_t cost = from == summed ? 0 : cost_of_one_step(s, from, summed);
  Placement now = summed;
  for (size_t axis = 0; axis < s.sizes.size(); ++axis) {
    Placement next = now;
    next.axes[axis] = -1;
    if (next != now) cost += cost_of_one_step(s, now, next);
    now = next;
  }
  return cost;
}

// Every step is one that the devices can take, costs what it says, and the last one ends at `to`.
void check(const Setting& s, const Placement& from, const Placement& to, const Steps& steps) {
  Placement now = from;
  for (const auto& [kind, dimensions, from_axis, to_axis, after, elements, buffer] : steps) {
    EXPECT_EQ(elements, cost_of_one_step(s, now, after)) << to_string(kind);
    Placement expected = now;
    expected.unreduced &= ~dimensions;
    const int d = std::countr_zero(dimensions);
    if (from_axis >= 0) {
      EXPECT_EQ(now.axes[static_cast<size_t>(from_axis)], d);
      expected.axes[static_cast<size_t>(from_axis)] = -1;
    }
    if (to_axis >= 0) expected.axes[static_cast<size_t>(to_axis)] = d;
    EXPECT_EQ(after, expected);
    EXPECT_EQ(kind == Kind::all_reduce || kind == Kind::reduce_scatter, after.unreduced != now.unreduced);
    EXPECT_EQ(kind == Kind::all_gather || kind == Kind::all_to_all, from_axis >= 0);
    EXPECT_EQ(kind == Kind::all_reduce || kind == Kind::all_gather, to_axis < 0);
    const bool grows = kind == Kind::all_gather || kind == Kind::slice;
    EXPECT_EQ(buffer, s.elements(grows ? after : now, 0));
    now = after;
  }
  EXPECT_EQ(now, to);
}

std::vector<Sizes> sizes_of_rank(size_t rank) {
  switch (rank) {
    case 0: return {{}};
    case 1: return {{12}, {7}, {1}, {0}};
    case 2: return {{12, 6}, {5, 7}, {1, 3}, {4, 0}};
    default: return {{6, 12, 6}, {2, 5, 3}};
  }
}

class Redistribution : public testing::TestWithParam<Sizes> {};
INSTANTIATE_TEST_SUITE_P(Meshes, Redistribution,
                         testing::Values(Sizes{2}, Sizes{3}, Sizes{1, 2}, Sizes{2, 2}, Sizes{2, 3}, Sizes{4, 2},
                                         Sizes{2, 2, 2}),
                         [](const auto& info) {
                           std::string name = "mesh";
                           for (const int64_t size : info.param) name += str("_", size);
                           return name;
                         });

TEST_P(Redistribution, OfEveryPairIsValidAndTheCheapestThereIs) {
  for (size_t rank = 0; rank <= 3; ++rank)
    for (const Sizes& sizes : sizes_of_rank(rank)) {
      const Setting setting{GetParam(), sizes};
      const BruteForce brute_force(setting);
      const auto& all = brute_force.placements();
      for (size_t i = 0; i < all.size(); ++i) {
        const auto cheapest = brute_force.cheapest(i);
        for (size_t j = 0; j < all.size(); ++j) {
          if (all[j].unreduced & ~all[i].unreduced) continue;
          SCOPED_TRACE(setting.name(all[i], all[j]));
          const Steps steps = plan_redistribution(setting.mesh, all[i], all[j], sizes);
          check(setting, all[i], all[j], steps);
          EXPECT_EQ(elements_received(steps), cheapest.back()[j]);
          const auto with_one_less = [&] { return cheapest[steps.size() - 1][j]; };
          EXPECT_TRUE(i == j || with_one_less() > elements_received(steps)) << "fewer steps would do";
          EXPECT_LE(elements_received(steps), naive_cost(setting, all[i], all[j]));
          EXPECT_EQ(steps.empty(), i == j);
          if (HasFailure()) return;
        }
      }
    }
}

std::vector<std::string> names(const Steps& steps) {
  std::vector<std::string> result;
  for (const auto& step : steps) result.push_back(str(to_string(step.kind), " over ", step.dimensions));
  return result;
}

TEST(Redistributions, ADimensionMovesFromAxisToAxisAllToAll) {
  const Steps steps = plan_redistribution({4}, {{0, -1}}, {{-1, 0}}, {8, 8});
  EXPECT_THAT(names(steps), ElementsAre("all_to_all over 1"));
  EXPECT_EQ(elements_received(steps), 4 * (16 - 4)) << "of the 16 elements that a device gets, it had 4";
  EXPECT_EQ(steps[0].buffer, 16);
}

TEST(Redistributions, ASumThatIsToBeSplitIsScattered) {
  const Steps steps = plan_redistribution({4}, {{-1, -1}, 1}, {{0, -1}}, {8, 8});
  EXPECT_THAT(names(steps), ElementsAre("reduce_scatter over 1"));
  EXPECT_EQ(elements_received(steps), 4 * 3 * 16);
}

TEST(Redistributions, WhatIsSplitInTheEndIsSlicedBeforeTheRestIsGathered) {
  const Steps steps = plan_redistribution({4, 2}, {{0, -1}}, {{-1, 1}}, {8, 8});
  EXPECT_THAT(names(steps), ElementsAre("slice over 2", "all_gather over 1"));
}

TEST(Redistributions, SumsOverSeveralDimensionsAreTakenAtOnce) {
  const Steps steps = plan_redistribution({2, 2}, {{-1}, 3}, {{-1}, 0}, {8});
  EXPECT_THAT(names(steps), ElementsAre("all_reduce over 3"));
  EXPECT_EQ(elements_received(steps), 2 * 3 * 8);
}

TEST(Redistributions, EqualCopiesShareTheWorkOfASum) {
  // Each of two copies of the four terms sums one half: 2 * (3 * 8 + 8) elements less 2 * 3 * 16.
  const Steps steps = plan_redistribution({4, 2}, {{-1}, 1}, {{-1}}, {16});
  EXPECT_THAT(names(steps), ElementsAre("slice over 2", "all_reduce over 1", "all_gather over 2"));
  EXPECT_EQ(elements_received(steps), 2 * (2 * 3 * 8) + 8 * 8);
}

TEST(Redistributions, AreAlwaysTheSameOnes) {
  const auto plan = [] { return plan_redistribution({2, 2, 2}, {{0, 1, -1}}, {{1, 2, 0}}, {4, 6, 8}); };
  const Steps first = plan(), second = plan();
  ASSERT_EQ(names(first), names(second));
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].after, second[i].after);
}

TEST(Redistributions, OfEightDimensionsAreFoundInTime) {
  const Sizes mesh(8, 2), sizes(8, 4);
  const Placement from{{0, 1, 2, 3, 4, 5, 6, 7}}, to{{7, 6, 5, 4, 3, 2, 1, 0}};
  const Steps steps = plan_redistribution(mesh, from, to, sizes);
  check({mesh, sizes}, from, to, steps);
  EXPECT_LE(elements_received(steps), naive_cost({mesh, sizes}, from, to));
}

TEST(Redistributions, OfMoreElementsThanThereAreNumbersEnd) {
  const Steps steps = plan_redistribution({8}, {{0, -1}}, {{-1, -1}}, {int64_t{1} << 40, int64_t{1} << 22});
  EXPECT_THAT(names(steps), ElementsAre("all_gather over 1"));
}

TEST(Redistributions, RefuseWhatIsNoPlacement) {
  const auto refused = [](const Sizes& mesh, const Placement& from, const Placement& to, const Sizes& sizes) {
    return error_of([&] { plan_redistribution(mesh, from, to, sizes); });
  };
  EXPECT_THAT(refused({2}, {{0}}, {{0, -1}}, {4}), HasSubstr("a placement of 2 axes for a value of 1"));
  EXPECT_THAT(refused({2}, {{1}}, {{0}}, {4}), HasSubstr("mesh dimension 1 of a mesh of 1"));
  EXPECT_THAT(refused({2}, {{0, 0}}, {{0, -1}}, {4, 4}), HasSubstr("used twice"));
  EXPECT_THAT(refused({2}, {{0}, 1}, {{0}}, {4}), HasSubstr("used twice"));
  EXPECT_THAT(refused({2}, {{0}}, {{-1}, 1}, {4}), HasSubstr("cannot be made a sum"));
  EXPECT_THAT(refused({0}, {{0}}, {{-1}}, {4}), HasSubstr("on a mesh of [0]"));
  EXPECT_THAT(refused(Sizes(9, 1), {{0}}, {{-1}}, {4}), HasSubstr("9 dimensions"));
}

}  // namespace
}  // namespace tutti
