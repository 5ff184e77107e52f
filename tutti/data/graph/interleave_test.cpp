#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

// x, x, … as many times as x says.
Dataset<Tensor> own_number_of_copies(const Tensor& x) { return from_tensors(x).repeat(x.item<int64_t>()); }

TEST(FlatMap, JoinsTheDatasetsThatTheFunctionMakes) {
  EXPECT_EQ(numbers(range(4).flat_map(own_number_of_copies)), (Numbers{{1}, {2}, {2}, {3}, {3}, {3}}));
  EXPECT_EQ(numbers(range(0).flat_map(own_number_of_copies)), Numbers{});
  EXPECT_EQ(range(4).flat_map(own_number_of_copies).cardinality(), kUnknown);
}

// The example of tf.data.Dataset.interleave's documentation.
TEST(Interleave, TakesBlocksFromADatasetInTurn) {
  const auto six = [](const Tensor& x) { return from_tensors(x).repeat(6); };
  const auto mixed = range(1, 6).interleave(six, {.cycle_length = 2, .block_length = 4});
  EXPECT_EQ(numbers(mixed), (Numbers{{1}, {1}, {1}, {1}, {2}, {2}, {2}, {2}, {1}, {1}, {2}, {2}, {3}, {3}, {3},
                                     {3}, {4}, {4}, {4}, {4}, {3}, {3}, {4}, {4}, {5}, {5}, {5}, {5}, {5}, {5}}));
}

TEST(Interleave, OpensNoMoreThanItsCycle) {
  int open = 0;
  const auto counted = [&](const Tensor& x) {
    ++open;
    return from_tensors(x).repeat(3);
  };
  auto iterator = range(100).interleave(counted, {.cycle_length = 3}).begin();
  for (int i = 0; i < 8; ++i) ++iterator;
  EXPECT_EQ(open, 3);
}

TEST(Interleave, RefusesNoCycleAndNoBlock) {
  EXPECT_THAT(error_of([] { range(4).interleave(own_number_of_copies, {.cycle_length = 0}); }),
              ::testing::HasSubstr("invalid_argument: interleave: cycle_length 0, block_length 1"));
  EXPECT_THAT(error_of([] { range(4).interleave(own_number_of_copies, {.block_length = -1}); }),
              ::testing::HasSubstr("at least 1"));
}

TEST(Interleave, PassesOnWhatTheFunctionThrows) {
  const auto failing = range(4).flat_map([](const Tensor& x) -> Dataset<Tensor> {
    if (x.item<int64_t>() == 2) throw std::runtime_error("two");
    return own_number_of_copies(x);
  });
  EXPECT_THROW(numbers(failing), std::runtime_error);
}

}  // namespace
}  // namespace tutti::data
