#include "tutti/data/graph/element_draws.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <stdexcept>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"
#include "tests/support/watchdog.h"

namespace tutti::data {
namespace {

constexpr std::chrono::seconds kLongest(60);

MapOptions drawing_on(int threads, uint64_t seed = 7) { return {.num_parallel_calls = threads, .seed = seed}; }

// Two numbers that the function draws.
Dataset<Tensor> drawn(int threads, uint64_t seed = 7) {
  return range(40).map([](const Tensor&) { return at::rand({2}); }, drawing_on(threads, seed));
}

TEST(ElementDraws, AreThoseOfOneThreadOnSeveral) {
  const Watchdog watchdog(kLongest);
  const Numbers serial = numbers(drawn(0));
  for (const int threads : {1, 2, 5}) EXPECT_EQ(numbers(drawn(threads)), serial) << threads;
  EXPECT_EQ(numbers(drawn(3).prefetch(4)), serial);
  EXPECT_NE(numbers(drawn(0, 8)), serial);
}

TEST(ElementDraws, DifferFromElementToElementAndFromPassToPass) {
  const Watchdog watchdog(kLongest);
  for (const int threads : {0, 2}) {
    const auto dataset = drawn(threads);
    std::set<std::vector<double>> seen;
    for (int pass = 0; pass < 2; ++pass)
      for (const auto& numbers : numbers(dataset.repeat(2))) seen.insert(numbers);
    EXPECT_EQ(seen.size(), 160U);
    const Numbers both = numbers(zip(dataset, dataset).map([](const Tensor& x, const Tensor& y) { return x - y; }));
    EXPECT_EQ(std::ranges::count(both, std::vector<double>{0, 0}), 0);
    EXPECT_EQ(numbers(dataset.cache().repeat(2)).size(), 80U);
  }
}

TEST(ElementDraws, BelowACacheAreTheSameWhoeverFillsIt) {
  const auto cached = drawn(0).cache();
  const Numbers first = numbers(cached.take(5));  // left early: the next pass computes them again
  Numbers whole = numbers(cached);
  EXPECT_EQ(numbers(cached), whole);
  whole.resize(5);
  EXPECT_EQ(first, whole);
}

TEST(ElementDraws, AreOfLayersToo) {
  const auto drop = [](const Tensor&) { return at::dropout(at::ones({30}), 0.5, /*train=*/true); };
  EXPECT_EQ(numbers(range(9).map(drop, drawing_on(0))), numbers(range(9).map(drop, drawing_on(2))));
}

TEST(ElementDraws, LeaveTheDefaultGeneratorAlone) {
  const auto generator = at::detail::getDefaultCPUGenerator();
  const Tensor before = generator.get_state();
  const Numbers elements = numbers(drawn(0));
  EXPECT_TRUE(at::equal(generator.get_state(), before));
  EXPECT_NE(numbers(at::rand({2})), elements[0]);
  EXPECT_FALSE(at::equal(generator.get_state(), before));
}

TEST(ElementDraws, CountAnElementThatFailsAndNoneThatTheInputLacks) {
  const Watchdog watchdog(kLongest);
  const auto failing_at = [](int64_t failing) {
    return [failing](const Tensor& x) {
      return x.item<int64_t>() == failing ? throw std::domain_error("failing") : x + at::rand({});
    };
  };
  const auto made = [&](int threads) {
    const auto input = range(9).map(failing_at(2), drawing_on(threads, 1));
    const auto then = [at_five = failing_at(5)](const Tensor& x) { return at_five(x.floor()); };
    return numbers(input.map(then, drawing_on(threads, 2)).ignore_errors());
  };
  EXPECT_EQ(made(0).size(), 7U);
  EXPECT_EQ(made(2), made(0));
}

TEST(ElementDraws, GoOnWhereTheyWereSaved) {
  const Watchdog watchdog(kLongest);
  for (const int threads : {0, 2}) {
    expect_resumes(drawn(threads).take(6));
    expect_resumes(drawn(threads).take(3).repeat(2).prefetch(2));
    expect_resumes(range(3).flat_map([threads](const Tensor&) { return drawn(threads).take(2); }));
  }
}

}  // namespace
}  // namespace tutti::data
