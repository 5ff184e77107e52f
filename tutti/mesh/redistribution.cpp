#include "tutti/mesh/redistribution.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/mesh/shard.h"

namespace tutti {
namespace {

constexpr size_t kMaxPlacements = 8192;

// For each mesh dimension the axis that it splits, or one of these.
constexpr int8_t kIdle = -1;   // equal copies
constexpr int8_t kTerms = -2;  // terms of a sum
using Places = std::array<int8_t, Mesh::kMaxDimensions>;

// Numbers of elements that no memory holds (of expanded tensors) stop at the largest.
int64_t product(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<int64_t>::max() : result;
}

int64_t sum(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_add_overflow(a, b, &result) ? std::numeric_limits<int64_t>::max() : result;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "redistribution: " + what);
}

Places places_of(const Placement& placement, const std::vector<int64_t>& mesh, const std::vector<int64_t>& sizes) {
  if (placement.axes.size() != sizes.size())
    refuse(str("a placement of ", placement.axes.size(), " axes for a value of ", sizes.size()));
  Places places;
  places.fill(kIdle);
  const auto take = [&](size_t dimension, int8_t place) {
    if (dimension >= mesh.size()) refuse(str("mesh dimension ", dimension, " of a mesh of ", mesh.size()));
    if (places[dimension] != kIdle)
      refuse(str("mesh dimension ", dimension, " is used twice; it can split one axis or hold one sum"));
    places[dimension] = place;
  };
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (placement.axes[axis] >= 0) take(static_cast<size_t>(placement.axes[axis]), static_cast<int8_t>(axis));
  for (size_t d = 0; d < 8 * sizeof(DimensionMask); ++d)
    if (placement.unreduced >> d & 1) take(d, kTerms);
  return places;
}

struct Step {
  RedistributionKind kind;
  DimensionMask dimensions;
  int from_axis, to_axis;
  Places after;
  int64_t elements;
};

// The shortest way through the placements of one value on one mesh.
class Search {
 public:
  Search(const std::vector<int64_t>& mesh, const std::vector<int64_t>& sizes, const Places& from, const Places& to)
      : mesh_(mesh), sizes_(sizes), from_(from), to_(to) {}

  std::vector<RedistributionStep> run() const {
    auto steps = shortest();
    if (!steps) steps = direct();
    std::vector<RedistributionStep> result;
    Places before = from_;
    for (const Step& step : *steps) {
      const bool grows = step.kind == RedistributionKind::all_gather || step.kind == RedistributionKind::slice;
      result.push_back({step.kind, step.dimensions, step.from_axis, step.to_axis, placement_of(step.after),
                        step.elements, first_piece(grows ? step.after : before)});
      before = step.after;
    }
    return result;
  }

 private:
  size_t num_dimensions() const { return mesh_.size(); }

  // How many elements all devices hold together.
  int64_t held(const Places& places) const {
    int64_t elements = 1;
    for (const int64_t size : sizes_) elements = product(elements, size);
    for (size_t d = 0; d < num_dimensions(); ++d)
      if (places[d] < 0) elements = product(elements, mesh_[d]);
    return elements;
  }

  int64_t first_piece(const Places& places) const {
    std::vector<int64_t> lengths = sizes_;
    for (size_t d = 0; d < num_dimensions(); ++d)
      if (places[d] >= 0) {
        int64_t& length = lengths[static_cast<size_t>(places[d])];
        length = shard_length(length, mesh_[d], 0);
      }
    int64_t elements = 1;
    for (const int64_t length : lengths) elements = product(elements, length);
    return elements;
  }

  Placement placement_of(const Places& places) const {
    Placement placement{std::vector<int>(sizes_.size(), -1)};
    for (size_t d = 0; d < num_dimensions(); ++d) {
      if (places[d] >= 0) placement.axes[static_cast<size_t>(places[d])] = static_cast<int>(d);
      if (places[d] == kTerms) placement.unreduced |= DimensionMask{1} << d;
    }
    return placement;
  }

  // How many elements devices have already when dimension `d` moves from one axis to another.
  int64_t kept_in_all_to_all(const Places& places, size_t d, size_t from, size_t to) const {
    int64_t elements = 0;
    for (int64_t i = 0; i < mesh_[d]; ++i)
      elements += product(shard_length(sizes_[from], mesh_[d], i), shard_length(sizes_[to], mesh_[d], i));
    for (size_t axis = 0; axis < sizes_.size(); ++axis)
      if (axis != from && axis != to) elements = product(elements, sizes_[axis]);
    for (size_t other = 0; other < num_dimensions(); ++other)
      if (places[other] < 0) elements = product(elements, mesh_[other]);
    return elements;
  }

  DimensionMask sums_due(const Places& places) const {
    DimensionMask due = 0;
    for (size_t d = 0; d < num_dimensions(); ++d)
      if (places[d] == kTerms && to_[d] != kTerms) due |= DimensionMask{1} << d;
    return due;
  }

  // Every step that can be taken from `places`.
  template <class Visit>
  void for_each_step(const Places& places, Visit visit) const {
    const DimensionMask due = sums_due(places);
    for (DimensionMask some = due; some; some = (some - 1) & due) visit(all_reduce(places, some));
    const int64_t now = held(places);
    for (size_t d = 0; d < num_dimensions(); ++d) {
      const int64_t k = mesh_[d];
      Places next = places;
      const auto step = [&](RedistributionKind kind, int to, int64_t elements) {
        next[d] = static_cast<int8_t>(to);
        visit(Step{kind, DimensionMask{1} << d, std::max<int>(places[d], -1), to, next, elements});
      };
      if (places[d] == kTerms && !(due >> d & 1)) continue;
      if (places[d] >= 0) step(RedistributionKind::all_gather, -1, product(now, k - 1));
      for (size_t axis = 0; axis < sizes_.size(); ++axis) {
        const int to = static_cast<int>(axis);
        if (std::find(places.begin(), places.end(), static_cast<int8_t>(to)) != places.end()) continue;
        if (places[d] == kTerms)
          step(RedistributionKind::reduce_scatter, to, product(now / k, k - 1));
        else if (places[d] == kIdle)
          step(RedistributionKind::slice, to, 0);
        else
          step(RedistributionKind::all_to_all, to,
               now - kept_in_all_to_all(places, d, static_cast<size_t>(places[d]), axis));
      }
    }
  }

  Step all_reduce(const Places& places, DimensionMask dimensions) const {
    Step step{RedistributionKind::all_reduce, dimensions, -1, -1, places, 0};
    int64_t devices = 1;
    for (size_t d = 0; d < num_dimensions(); ++d)
      if (dimensions >> d & 1) {
        step.after[d] = kIdle;
        devices *= mesh_[d];
      }
    step.elements = product(product(held(places) / devices, devices - 1), 2);
    return step;
  }

  // Dijkstra's algorithm. Nothing where it would look at too many placements.
  std::optional<std::vector<Step>> shortest() const {
    struct Node {
      int64_t elements;
      int steps;
      Step last;
      int previous;
      bool done = false;
    };
    std::vector<Node> nodes{{0, 0, {RedistributionKind::slice, 0, -1, -1, from_, 0}, -1}};
    std::map<Places, int> found{{from_, 0}};
    using Entry = std::tuple<int64_t, int, int>;  // elements, steps, node
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    queue.emplace(0, 0, 0);
    while (nodes.size() <= kMaxPlacements) {
      const int index = std::get<2>(queue.top());
      queue.pop();
      if (std::exchange(nodes[static_cast<size_t>(index)].done, true)) continue;
      const Node node = nodes[static_cast<size_t>(index)];
      if (node.last.after == to_) {
        std::vector<Step> steps;
        for (int i = index; i > 0; i = nodes[static_cast<size_t>(i)].previous)
          steps.insert(steps.begin(), nodes[static_cast<size_t>(i)].last);
        return steps;
      }
      for_each_step(node.last.after, [&](const Step& step) {
        const Node next{sum(node.elements, step.elements), node.steps + 1, step, index};
        const auto [entry, is_new] = found.emplace(step.after, static_cast<int>(nodes.size()));
        if (is_new) {
          nodes.push_back(next);
        } else {
          Node& known = nodes[static_cast<size_t>(entry->second)];
          if (std::tie(known.elements, known.steps) <= std::tie(next.elements, next.steps)) return;
          known = next;
        }
        queue.emplace(next.elements, next.steps, entry->second);
      });
    }
    return {};
  }

  // Sums, slices what can be sliced, gathers what is split otherwise, slices the rest.
  std::vector<Step> direct() const {
    std::vector<Step> steps;
    for (Places places = from_; places != to_; places = steps.back().after) {
      std::optional<Step> best;
      for_each_step(places, [&](const Step& step) {
        if (leads_to_target(step, places) && (!best || step.kind == RedistributionKind::slice)) best = step;
      });
      steps.push_back(*best);
    }
    return steps;
  }

  bool leads_to_target(const Step& step, const Places& places) const {
    const DimensionMask due = sums_due(places);
    if (due) return step.kind == RedistributionKind::all_reduce && step.dimensions == due;
    for (size_t d = 0; d < num_dimensions(); ++d)
      if (step.dimensions >> d & 1)
        return step.kind == RedistributionKind::slice
                   ? to_[d] == step.to_axis
                   : step.kind == RedistributionKind::all_gather && to_[d] != places[d];
    return false;
  }

  const std::vector<int64_t>& mesh_;
  const std::vector<int64_t>& sizes_;
  const Places from_, to_;
};

}  // namespace

const char* to_string(RedistributionKind kind) {
  switch (kind) {
    case RedistributionKind::all_reduce: return "all_reduce";
    case RedistributionKind::reduce_scatter: return "reduce_scatter";
    case RedistributionKind::all_gather: return "all_gather";
    case RedistributionKind::all_to_all: return "all_to_all";
    case RedistributionKind::slice: return "slice";
  }
  return "?";
}

std::vector<RedistributionStep> plan_redistribution(const std::vector<int64_t>& mesh, const Placement& from,
                                                    const Placement& to, const std::vector<int64_t>& sizes) {
  if (mesh.size() > static_cast<size_t>(Mesh::kMaxDimensions))
    refuse(str("a mesh of ", mesh.size(), " dimensions; there can be ", Mesh::kMaxDimensions));
  if (std::ranges::any_of(mesh, [](int64_t size) { return size < 1; }) ||
      std::ranges::any_of(sizes, [](int64_t size) { return size < 0; }))
    refuse(str("a value of shape ", str_list(sizes), " on a mesh of ", str_list(mesh)));
  const Places begin = places_of(from, mesh, sizes), end = places_of(to, mesh, sizes);
  for (size_t d = 0; d < mesh.size(); ++d)
    if (end[d] == kTerms && begin[d] != kTerms)
      refuse(str("over mesh dimension ", d, " a value cannot be made a sum of terms"));
  return Search(mesh, sizes, begin, end).run();
}

int64_t elements_received(const std::vector<RedistributionStep>& steps) {
  int64_t elements = 0;
  for (const RedistributionStep& step : steps) elements = sum(elements, step.elements);
  return elements;
}

}  // namespace tutti
