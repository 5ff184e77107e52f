#include "tutti/keras/batches.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tutti::keras {
namespace {

// The values of x in each batch of one pass.
std::vector<std::vector<int64_t>> pass(const Batches& batches) {
  std::vector<std::vector<int64_t>> values;
  const Batches::Next next = batches.begin(get_strategy());
  while (const auto batch = next()) {
    const int64_t* data = (*batch)[0].x[0].const_data_ptr<int64_t>();
    values.emplace_back(data, data + (*batch)[0].x[0].numel());
  }
  return values;
}

TEST(Batches, OfTensorsAreSlicesWithAShortLastOne) {
  const Batches batches = Batches::from_tensors({at::arange(5), at::arange(5)}, {.batch_size = 2});
  EXPECT_EQ(pass(batches), (std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(pass(batches), pass(batches));
}

TEST(Batches, ShuffledHoldEverySampleOnceInANewOrder) {
  const Batches batches = Batches::from_tensors({at::arange(100)}, {.batch_size = 100, .shuffle = true});
  std::vector<int64_t> first = pass(batches)[0];
  const std::vector<int64_t> second = pass(batches)[0];
  EXPECT_NE(first, second);
  std::ranges::sort(first);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(first[static_cast<size_t>(i)], i);
}

TEST(Batches, ShuffleKeepsXAndYTogether) {
  const Batches batches =
      Batches::from_tensors({at::arange(10), at::arange(10), at::arange(10)}, {.batch_size = 4, .shuffle = true});
  const Batches::Next next = batches.begin(get_strategy());
  while (const auto batch = next()) {
    EXPECT_TRUE((*batch)[0].x[0].equal((*batch)[0].y[0]));
    EXPECT_TRUE((*batch)[0].x[0].equal((*batch)[0].sample_weight[0]));
  }
}

TEST(Batches, OfARangeKeepItAlive) {
  Batches batches = [] {
    return Batches(std::vector{std::tuple(at::arange(2), at::ones({2})), std::tuple(at::arange(3), at::ones({3}))});
  }();
  EXPECT_EQ(pass(batches), (std::vector<std::vector<int64_t>>{{0, 1}, {0, 1, 2}}));
  EXPECT_EQ(pass(batches).size(), 2U);
}

}  // namespace
}  // namespace tutti::keras
