#include "tutti/data/graph/passes.h"

#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <set>
#include <thread>

#include "tests/support/dataset_values.h"
#include "tests/support/watchdog.h"

namespace tutti::data {
namespace {

std::vector<double> next(DatasetIterator<Tensor>& iterator, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i, ++iterator) values.push_back(iterator->item<double>());
  return values;
}

// Epochs of ten steps, each with an iterator of its own that is left while a thread is ahead.
std::vector<std::vector<double>> epochs(const Dataset<Tensor>& dataset, std::chrono::milliseconds pause) {
  std::vector<std::vector<double>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    auto iterator = dataset.begin();
    epochs.push_back(next(iterator, 10));
    std::this_thread::sleep_for(pause);
  }
  return epochs;
}

Dataset<Tensor> shuffled() { return range(10).shuffle(10, {.seed = 1}); }

TEST(Orders, DoNotDependOnHowFarAThreadIsAhead) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const auto hidden = range(5).shuffle(5, {.seed = 2});
  const auto inner = [hidden](const Tensor& x) { return hidden.map([x](const Tensor& y) { return 10 * x + y; }); };
  const std::vector<std::function<Dataset<Tensor>()>> makers{
      [] { return shuffled().repeat().prefetch(64); },
      [] { return shuffled().cache().prefetch(64).repeat(); },
      [] {
        return shuffled()
            .map([](const Tensor& x) { return x; }, {.num_parallel_calls = 2})
            .cache()
            .repeat()
            .prefetch(9);
      },
      [&] { return range(20).interleave(inner, {.cycle_length = 3, .num_parallel_calls = 2}); },
  };
  for (const auto& make : makers)
    EXPECT_EQ(epochs(make(), std::chrono::milliseconds(0)), epochs(make(), std::chrono::milliseconds(20)));
}

TEST(Orders, OfOnePassAreThoseOfSeveralThreads) {
  const auto hidden = range(5).shuffle(5, {.seed = 2});
  const auto inner = [hidden](const Tensor& x) { return hidden.map([x](const Tensor& y) { return 10 * x + y; }); };
  const auto of = [&](int threads) {
    return numbers(range(6).interleave(inner, {.cycle_length = 2, .num_parallel_calls = threads}).repeat(2));
  };
  // One node, and so one operation with passes, for each.
  EXPECT_EQ(of(0), of(2));
}

TEST(Orders, DoNotDependOnWhoElseIterates) {
  const auto alone = shuffled().repeat(), crowded = shuffled().repeat();
  auto one = alone.begin();
  const std::vector<double> expected = next(one, 50);
  auto other = crowded.begin();
  std::vector<double> seen = next(other, 15);
  auto third = crowded.begin();
  next(third, 33);
  third.restore_state(other.save_state());
  crowded.begin().restore_state(third.save_state());
  for (const double value : next(other, 35)) seen.push_back(value);
  EXPECT_EQ(seen, expected);
}

TEST(Orders, DifferFromPassToPass) {
  const auto dataset = shuffled();
  std::set<Numbers> orders;
  for (int epoch = 0; epoch < 3; ++epoch) orders.insert(numbers(dataset));
  const Numbers nested = numbers(dataset.repeat(2).repeat(2));
  for (int pass = 0; pass < 4; ++pass)
    orders.insert(Numbers(nested.begin() + 10 * pass, nested.begin() + 10 * (pass + 1)));
  EXPECT_EQ(orders.size(), 7);
  const auto twice = shuffled();
  for (const Numbers& both : {numbers(twice.concatenate(twice))})
    EXPECT_NE(Numbers(both.begin(), both.begin() + 10), Numbers(both.begin() + 10, both.end()));
  EXPECT_EQ(numbers(shuffled().enumerate().map([](const Tensor&, const Tensor& x) { return x; })), numbers(shuffled()))
      << "a shuffle's order is its own";
}

}  // namespace
}  // namespace tutti::data
