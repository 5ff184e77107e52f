#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/support/collected_warnings.h"
#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"
#include "tests/support/watchdog.h"

namespace tutti::data {
namespace {

using ::testing::ElementsAre;

Tensor refuse_threes(const Tensor& x) {
  if (x.item<int64_t>() % 3 == 0) throw std::domain_error("a three");
  return x;
}

TEST(IgnoreErrors, LeavesOutWhatFails) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const Numbers left{{1}, {2}, {4}, {5}, {7}};
  EXPECT_EQ(numbers(range(8).map(refuse_threes).ignore_errors()), left);
  EXPECT_EQ(numbers(range(8).map(refuse_threes, {.num_parallel_calls = 3}).ignore_errors()), left);
  EXPECT_EQ(numbers(range(8).map(refuse_threes).prefetch(2).ignore_errors()), left);
  EXPECT_EQ(numbers(range(8).map(refuse_threes).shuffle(1).ignore_errors()), left);
  EXPECT_EQ(range(8).map(refuse_threes).ignore_errors().cardinality(), kUnknown);
}

TEST(IgnoreErrors, OfAFunctionThatMakesDatasets) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const auto make = [](const Tensor& x) {
    refuse_threes(x);
    return range(x.item<int64_t>() + 1).map(refuse_threes);
  };
  const Numbers left{{1}, {1}, {2}};
  EXPECT_EQ(numbers(range(3).flat_map(make).ignore_errors()), left);
  for (const int threads : {1, 3})
    EXPECT_EQ(numbers(range(3).interleave(make, {.cycle_length = 1, .num_parallel_calls = threads}).ignore_errors()),
              left);
}

TEST(IgnoreErrors, AGeneratorThatThrowsHasEnded) {
  const auto failing = from_generator([] {
    return [n = 0]() mutable -> std::optional<Tensor> {
      if (n == 2) throw std::runtime_error("two");
      return at::full({}, n++);
    };
  });
  EXPECT_EQ(numbers(failing.ignore_errors()), (Numbers{{0}, {1}}));
}

TEST(IgnoreErrors, WarnsWhenAsked) {
  const CollectedWarnings warnings;
  numbers(range(4).map(refuse_threes).ignore_errors());
  EXPECT_THAT(warnings.lines(), ElementsAre());
  numbers(range(4).map(refuse_threes).ignore_errors({.log_warning = true}));
  EXPECT_THAT(warnings.lines(),
              ElementsAre("ignore_errors: map: element 0: a three", "ignore_errors: map: element 3: a three"));
}

TEST(IgnoreErrors, GoesOnWhereItWasSaved) { expect_resumes(range(8).map(refuse_threes).ignore_errors()); }

}  // namespace
}  // namespace tutti::data
