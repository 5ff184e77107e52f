#include "tutti/dtensor/stateless_random.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/dtensor/default_mesh.h"
#include "tutti/dtensor/fetch_layout.h"
#include "tutti/dtensor/philox.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using testing::HasSubstr;

// Of the generator's authors: Random123's kat_vectors.
TEST(Philox, GivesThePublishedWords) {
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

using Draw = std::function<Tensor(at::IntArrayRef shape)>;

// One of each kind and dtype.
std::vector<Draw> all_draws() {
  std::vector<Draw> draws;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    draws.push_back([=](auto shape) { return stateless_normal(shape, {.seed = 3, .dtype = dtype}); });
    draws.push_back([=](auto shape) { return stateless_truncated_normal(shape, {.seed = 3, .dtype = dtype}); });
    draws.push_back([=](auto shape) { return stateless_uniform(shape, {.seed = 3, .dtype = dtype}); });
  }
  for (const auto dtype : {at::kInt, at::kLong}) {
    draws.push_back([=](auto shape) { return stateless_uniform(shape, {.seed = 3, .dtype = dtype}); });
    draws.push_back([=](auto shape) {
      return stateless_uniform(shape, {.seed = 3, .minval = -5, .maxval = 1000, .dtype = dtype});
    });
  }
  return draws;
}

TEST(StatelessRandom, DoesNotDependOnLayoutMeshOrMerging) {
  const auto devices = configure_logical_cpus(8);
  for (const Draw& draw : all_draws()) {
    for (const auto& shape : std::vector<std::vector<int64_t>>{{7, 5, 6}, {3, 8, 1}, {4, 0, 2}}) {
      const Tensor plain = draw(shape);
      for (const bool merge : {true, false}) {
        const Mesh mesh({{"x", 2}, {"y", 4}}, devices, {.merge = merge});
        for (const auto& specs : std::vector<std::vector<std::string>>{{"x", "y", "unsharded"},
                                                                       {"unsharded", "y", "x"},
                                                                       {"y", "unsharded", "unsharded"},
                                                                       {"unsharded", "unsharded", "unsharded"}}) {
          const Layout layout(specs, mesh);
          const Tensor sharded = dtensor::call_with_layout(layout, [&] { return draw(shape); });
          ASSERT_EQ(dtensor::fetch_layout(sharded), layout);
          ASSERT_TRUE(at::equal(gather(sharded), plain)) << layout.to_string() << ' ' << plain.toString();
        }
      }
    }
  }
}

TEST(StatelessRandom, DoesNotDependOnThreads) {
  const std::vector<int64_t> shape{100'003};
  const int threads = at::get_num_threads();
  for (const Draw& draw : all_draws()) {
    at::set_num_threads(1);
    const Tensor one = draw(shape);
    at::set_num_threads(3);
    EXPECT_TRUE(at::equal(draw(shape), one)) << one.toString();
  }
  at::set_num_threads(threads);
}

TEST(StatelessRandom, ElementsDependOnTheirIndexAlone) {
  for (const Draw& draw : all_draws()) EXPECT_TRUE(at::equal(draw({1001}).slice(0, 0, 10), draw({10})));
  EXPECT_TRUE(at::equal(stateless_normal({6, 4}, {.seed = 3}).view(-1), stateless_normal({24}, {.seed = 3})));
}

TEST(StatelessRandom, SeedsTellNumbersApart) {
  const auto draw = [](StatelessSeed seed) { return stateless_uniform({8}, {.seed = seed}); };
  EXPECT_TRUE(at::equal(draw(4), draw({4, 0})));
  for (const StatelessSeed other : {StatelessSeed(5), StatelessSeed(4, 1), StatelessSeed(4 + (uint64_t{1} << 32))})
    EXPECT_FALSE(at::equal(draw(4), draw(other)));
}

// Means and deviations of a million numbers: their own standard errors are a hundredth of the tolerance.
TEST(StatelessRandom, HasTheMomentsOfItsDistribution) {
  constexpr int64_t kCount = 1'000'000;
  constexpr double kTolerance = 0.01;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf}) {
    const Tensor normal = stateless_normal({kCount}, {.seed = 1, .mean = 2, .stddev = 0.5, .dtype = dtype}).to(at::kDouble);
    EXPECT_NEAR(normal.mean().item<double>(), 2, kTolerance);
    EXPECT_NEAR(normal.std().item<double>(), 0.5, kTolerance);
    const Tensor uniform =
        stateless_uniform({kCount}, {.seed = 1, .minval = -1, .maxval = 3, .dtype = dtype}).to(at::kDouble);
    EXPECT_NEAR(uniform.mean().item<double>(), 1, kTolerance);
    EXPECT_NEAR(uniform.std().item<double>(), 4 / std::sqrt(12), kTolerance);
    EXPECT_GE(uniform.min().item<double>(), -1);
    const Tensor truncated = stateless_truncated_normal({kCount}, {.seed = 1, .dtype = dtype}).to(at::kDouble);
    EXPECT_NEAR(truncated.mean().item<double>(), 0, kTolerance);
    EXPECT_NEAR(truncated.std().item<double>(), 0.8796, kTolerance);  // of a normal cut at 2: sqrt(1 - 4 f(2) / F)
    EXPECT_LE(truncated.abs().max().item<double>(), 2);
  }
}

TEST(StatelessRandom, IntegersFillTheirRange) {
  const Tensor dice = stateless_uniform({100'000}, {.seed = 1, .minval = 1, .maxval = 7, .dtype = at::kInt});
  const Tensor counts = at::bincount(dice);
  ASSERT_EQ(counts.numel(), 7);
  EXPECT_EQ(counts[0].item<int64_t>(), 0);
  EXPECT_GT(counts.slice(0, 1).min().item<int64_t>(), 16'000);
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const Tensor wide =
      stateless_uniform({1000}, {.seed = 1, .minval = -kLargest, .maxval = kLargest, .dtype = at::kLong});
  EXPECT_GT((wide > 0).sum().item<int64_t>(), 400);
  EXPECT_GT((wide < 0).sum().item<int64_t>(), 400);
}

TEST(StatelessRandom, RefusesWhatItCannotDraw) {
  EXPECT_THAT(error_of([] { stateless_normal({2}, {.seed = 1, .dtype = at::kInt}); }), HasSubstr("dtype is Int"));
  EXPECT_THAT(error_of([] { stateless_uniform({2}, {.seed = 1, .dtype = at::kBool}); }), HasSubstr("dtype is Bool"));
  EXPECT_THAT(error_of([] { stateless_normal({2, -1}, {.seed = 1}); }), HasSubstr("negative size"));
  EXPECT_THAT(error_of([] { stateless_normal({int64_t{1} << 62, 4}, {.seed = 1}); }), HasSubstr("64 bits"));
  EXPECT_THAT(error_of([] { stateless_uniform({2}, {.seed = 1, .minval = 1, .maxval = 1}); }), HasSubstr("above minval"));
  const auto integers = [](std::optional<at::Scalar> minval, std::optional<at::Scalar> maxval) {
    return error_of([&] { stateless_uniform({2}, {.seed = 1, .minval = minval, .maxval = maxval, .dtype = at::kInt}); });
  };
  EXPECT_THAT(integers({}, 5), HasSubstr("both minval and maxval"));
  EXPECT_THAT(integers(5, 5), HasSubstr("above minval"));
  EXPECT_THAT(integers(0, 0.5), HasSubstr("no integer of the dtype"));
  EXPECT_THAT(integers(0, int64_t{1} << 32), HasSubstr("no integer of the dtype"));
}

}  // namespace
}  // namespace tutti
