#include "tutti/data/dataset_iterator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>

#include "tests/support/dataset_values.h"
#include "tests/support/random_dataset.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxElements = 20;

std::string text(const Tensor& element) {
  return str(c10::toString(element.scalar_type()), str_list(element.sizes()), ": ", str_list(numbers(element)));
}

// What is still to come.
std::vector<std::string> rest(DatasetIterator<Tensor>& iterator) {
  std::vector<std::string> all;
  for (; iterator != std::default_sentinel; ++iterator) all.push_back(text(*iterator));
  return all;
}

std::vector<std::string> all(const Dataset<Tensor>& dataset) {
  auto iterator = dataset.begin();
  return rest(iterator);
}

// The dataset is built anew, as in a new process.
DatasetIterator<Tensor> resumed(const Dataset<Tensor>& built_anew, const Tensor& state) {
  auto iterator = built_anew.begin();
  iterator.restore_state(state);
  return iterator;
}

Dataset<Tensor> random_dataset(uint64_t seed) {
  return RandomDataset(seed).make(/*depth=*/1 + static_cast<int>(seed % 5), kMaxElements);
}

TEST(DatasetIterator, ComputesTheFirstElementWhereItIsAskedFor) {
  int calls = 0;
  const auto counted = range(9).map([&calls](const Tensor& x) {
    ++calls;
    return x;
  });
  auto iterator = counted.begin();
  auto again = counted.begin();
  again.restore_state(iterator.save_state());
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(text(*iterator), "Long[]: [0]");
  EXPECT_TRUE(iterator != counted.end());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(text(*again), "Long[]: [0]");
  auto moved_on = counted.begin();
  ++moved_on;
  EXPECT_EQ(text(*moved_on), "Long[]: [1]");
  EXPECT_EQ(calls, 4);
}

TEST(DatasetIterator, WhatTheFirstElementThrowsIsThrownWhereItIsAskedFor) {
  const auto failing =
      range(3).map([](const Tensor& x) { return x.item<int64_t>() == 0 ? throw std::domain_error("zero") : x; });
  auto iterator = failing.begin();
  EXPECT_THROW(static_cast<void>(iterator == failing.end()), std::domain_error);
  EXPECT_TRUE(iterator != failing.end());
  EXPECT_EQ(code_of([&] { *iterator; }), ErrorCode::failed_precondition);
  ++iterator;
  EXPECT_EQ(rest(iterator), (std::vector<std::string>{"Long[]: [1]", "Long[]: [2]"}));
  EXPECT_THROW(++failing.begin(), std::domain_error);
  EXPECT_THROW(*failing.begin(), std::domain_error);
}

TEST(DatasetIterator, NextTakesTheCurrentElementAndComputesNoOther) {
  int calls = 0;
  const auto counted = range(3).map([&calls](const Tensor& x) {
    if (++calls == 2) throw std::runtime_error("two");
    return x;
  });
  auto iterator = counted.begin();
  EXPECT_TRUE(iterator != std::default_sentinel);
  EXPECT_EQ(text(iterator.next()), "Long[]: [0]");
  EXPECT_EQ(calls, 1);
  const Tensor state = iterator.save_state();
  EXPECT_THROW(iterator.next(), std::runtime_error);
  EXPECT_EQ(text(*iterator.next_as_optional()), "Long[]: [2]");
  EXPECT_FALSE(iterator.next_as_optional().has_value());
  EXPECT_TRUE(iterator == std::default_sentinel);
  EXPECT_EQ(code_of([&] { iterator.next(); }), ErrorCode::out_of_range);
  auto again = counted.begin();
  again.restore_state(state);
  EXPECT_EQ(text(again.next()), "Long[]: [1]");
}

TEST(DatasetIterator, ThatNobodyLooksAtCountsForNoPass) {
  const auto shuffled = [] { return range(20).shuffle(20, {.seed = 1}); };
  const auto dataset = shuffled();
  dataset.begin();
  const auto unused = dataset.begin();
  EXPECT_EQ(all(dataset), all(shuffled()));
}

TEST(DatasetIterator, WhosePassCannotBeginIsThenAtItsEnd) {
  graph::Node node;
  node.iterate = [](const graph::Context&) -> std::unique_ptr<graph::Iterator> {
    throw Error(ErrorCode::not_found, "no file");
  };
  const Dataset<Tensor> dataset(std::make_shared<const graph::Node>(node));
  auto iterator = dataset.begin();
  EXPECT_EQ(code_of([&] { *iterator; }), ErrorCode::not_found);
  EXPECT_TRUE(iterator != dataset.end());
  ++iterator;
  EXPECT_TRUE(iterator == dataset.end());
  EXPECT_EQ(code_of([&] { iterator.save_state(); }), ErrorCode::failed_precondition);
}

TEST(DatasetIteratorState, GoesOnFromEveryElementOfAnyDataset) {
  for (uint64_t seed = 0; seed < 250; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::string> whole = all(random_dataset(seed));
    auto iterator = random_dataset(seed).begin();
    for (size_t taken = 0;; ++taken, ++iterator) {
      auto again = resumed(random_dataset(seed), iterator.save_state());
      ASSERT_EQ(rest(again), std::vector(whole.begin() + static_cast<std::ptrdiff_t>(taken), whole.end())) << taken;
      if (iterator == std::default_sentinel) break;
      ASSERT_EQ(text(*iterator), whole[taken]) << "the iterator that was saved";
    }
  }
}

TEST(DatasetIteratorState, MayBeRestoredAtEachElement) {
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    SCOPED_TRACE(seed);
    Tensor state = random_dataset(seed).begin().save_state();
    for (const std::string& expected : all(random_dataset(seed))) {
      auto iterator = resumed(random_dataset(seed), state);
      ASSERT_TRUE(iterator != std::default_sentinel);
      ASSERT_EQ(text(*iterator), expected);
      ++iterator;
      state = iterator.save_state();
    }
    EXPECT_TRUE(resumed(random_dataset(seed), state) == std::default_sentinel);
  }
}

TEST(DatasetIteratorState, GoesBackInTheSameProcess) {
  for (uint64_t seed = 2000; seed < 2100; ++seed) {
    SCOPED_TRACE(seed);
    auto iterator = random_dataset(seed).begin();
    const Tensor state = iterator.save_state();
    const std::vector<std::string> whole = rest(iterator);
    iterator.restore_state(state);
    EXPECT_EQ(rest(iterator), whole);
  }
}

// Restores and goes on; whatever comes, nothing breaks.
void try_state(DatasetIterator<Tensor>& iterator, const Tensor& state) {
  try {
    iterator.restore_state(state);
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::data_loss || error.code() == ErrorCode::failed_precondition) << error.what();
    return;
  } catch (const std::exception&) {
    return;  // from a function of the dataset
  }
  try {
    for (int64_t i = 0; i < 2 * kMaxElements && iterator != std::default_sentinel; ++i) ++iterator;
  } catch (const std::exception&) {
    // batches of values that do not belong together
  }
}

TEST(DatasetIteratorState, EveryTruncationIsNoticed) {
  for (uint64_t seed = 3000; seed < 3040; ++seed) {
    auto iterator = random_dataset(seed).begin();
    if (iterator != std::default_sentinel) ++iterator;
    const Tensor state = iterator.save_state();
    for (int64_t size = 0; size < state.numel(); ++size)
      EXPECT_EQ(code_of([&] { iterator.restore_state(state.narrow(0, 0, size)); }), ErrorCode::data_loss)
          << seed << ' ' << size;
  }
}

TEST(DatasetIteratorState, DamageNeverCrashes) {
  std::mt19937_64 random(1);
  for (uint64_t seed = 4000; seed < 4060; ++seed) {
    SCOPED_TRACE(seed);
    auto iterator = random_dataset(seed).begin();
    for (int i = 0; i < 3 && iterator != std::default_sentinel; ++i) ++iterator;
    const Tensor state = iterator.save_state();
    for (int i = 0; i < 200; ++i) {
      const Tensor damaged = state.clone();
      damaged[static_cast<int64_t>(random() % static_cast<uint64_t>(state.numel()))] = static_cast<int>(random() % 256);
      try_state(iterator, damaged);
    }
  }
}

TEST(DatasetIteratorState, OfAnotherDatasetIsRefusedByName) {
  const auto refusal = [](const Dataset<Tensor>& saved, const Dataset<Tensor>& other) {
    return error_of([&] { resumed(other, saved.begin().save_state()); });
  };
  EXPECT_THAT(refusal(range(9).shuffle(4), range(9).shuffle(5)),
              HasSubstr("begins 'shuffle(4)', where this dataset has 'shuffle(5)'"));
  EXPECT_THAT(refusal(range(9).batch(2), range(9).take(2)),
              HasSubstr("'batch(2,0)', where this dataset has 'take(2)'"));
  EXPECT_THAT(refusal(from_tensor_slices(at::ones({3, 2})), from_tensor_slices(at::ones({4, 2}))),
              HasSubstr("'from_tensor_slices of Float [3, 2]', where this dataset has "
                        "'from_tensor_slices of Float [4, 2]'"));
  EXPECT_THAT(refusal(range(9), range(8)),
              HasSubstr("failed_precondition: restoring an iterator: the state is of another dataset: byte "));
  EXPECT_THAT(error_of([] { range(9).begin().restore_state(at::ones({16})); }), HasSubstr("not a tensor of bytes"));
  EXPECT_THAT(error_of([] { range(9).begin().restore_state(Tensor()); }), HasSubstr("not a tensor of bytes"));
}

TEST(DatasetIteratorState, ThatIsRefusedLeavesTheIteratorWhereItWas) {
  auto iterator = range(9).shuffle(4, {.seed = 1}).repeat(2).prefetch(2).begin();
  ++iterator;
  auto same = resumed(range(9).shuffle(4, {.seed = 1}).repeat(2).prefetch(2), iterator.save_state());
  const Tensor state = iterator.save_state();
  EXPECT_EQ(code_of([&] { iterator.restore_state(state.narrow(0, 0, state.numel() - 1)); }), ErrorCode::data_loss);
  EXPECT_EQ(std::vector(1, text(*iterator)), std::vector(1, text(*same)));
  std::vector<std::string> left = rest(iterator);
  EXPECT_EQ(left.size(), 17);
  left.resize(8);  // of the pass that had begun
  std::vector<std::string> expected = rest(same);
  expected.resize(8);
  EXPECT_EQ(left, expected);
}

TEST(DatasetIteratorState, OfElementsOfAnotherTypeLeavesTheIteratorWhereItWas) {
  using Pair = std::tuple<Tensor, Tensor>;
  auto saved = range(10).map([](const Tensor& x) { return x; }).begin();
  for (int i = 0; i < 4; ++i) ++saved;
  auto pairs = range(10).map([](const Tensor& x) { return Pair(x, x); }).begin();
  EXPECT_EQ(code_of([&] { pairs.restore_state(saved.save_state()); }), ErrorCode::failed_precondition);
  EXPECT_EQ(std::get<0>(*pairs).item<int64_t>(), 0);
  ++pairs;
  EXPECT_EQ(std::get<0>(*pairs).item<int64_t>(), 1);
}

TEST(DatasetIteratorState, HoldsTheSeedOfAShuffle) {
  auto* generator = at::detail::getDefaultCPUGenerator().get<at::CPUGeneratorImpl>();
  generator->set_current_seed(1);
  auto iterator = range(20).shuffle(5).repeat(3).begin();
  ++iterator;
  const Tensor state = iterator.save_state();
  generator->set_current_seed(2);
  auto again = resumed(range(20).shuffle(5).repeat(3), state);
  EXPECT_EQ(rest(again), rest(iterator));
}

TEST(DatasetIteratorState, LaterPassesOfTheDatasetGoOnToo) {
  const auto dataset = range(20).shuffle(20, {.seed = 1});
  all(dataset);
  const Tensor state = dataset.begin().save_state();  // the second pass
  const auto anew = range(20).shuffle(20, {.seed = 1});
  resumed(anew, state);
  EXPECT_EQ(all(anew), all(dataset));
}

TEST(DatasetIteratorState, OfPassesThatShareAShuffle) {
  const auto make = [] {
    const auto shuffled = range(6).shuffle(6, {.seed = 1});
    return zip(shuffled.repeat(3), shuffled.repeat(3)).map([](const Tensor& x, const Tensor& y) { return 10 * x + y; });
  };
  auto iterator = make().begin();
  for (int i = 0; i < 4; ++i) ++iterator;
  auto again = resumed(make(), iterator.save_state());
  EXPECT_EQ(rest(again), rest(iterator));
}

// Every pass over these begins others, in another order than before.
TEST(DatasetIteratorState, KnowsThePassesThatHaveEnded) {
  const auto of = [](uint64_t seed) { return range(5).shuffle(5, {.seed = seed}); };
  const std::function<Dataset<Tensor>()> makers[]{
      [&] { return of(1).concatenate(range(3)).repeat(3); },
      [&] { return of(1).repeat(1).concatenate(of(2)).shuffle(4, {.seed = 3}).repeat(3); },
      [&] { return of(1).cache().repeat(2).shuffle(9, {.seed = 3}).prefetch(3).repeat(3); },
      [&] { return range(2).flat_map([in = of(1)](const Tensor&) { return in; }).shuffle(6, {.seed = 3}).repeat(3); },
  };
  for (const auto& make : makers) {
    const std::vector<std::string> whole = all(make());
    auto iterator = make().begin();
    for (size_t taken = 0; taken <= whole.size(); ++taken, ++iterator) {
      auto again = resumed(make(), iterator.save_state());
      EXPECT_EQ(rest(again), std::vector(whole.begin() + static_cast<std::ptrdiff_t>(taken), whole.end())) << taken;
    }
  }
}

TEST(DatasetIteratorState, HoldsRowsAsNumbers) {
  const auto rows = from_tensor_slices(at::zeros({12'000, 784}, at::kByte));
  const int64_t most = 24 * 10'000 + 2000;
  const auto bytes_behind_first = [](const Dataset<Tensor>& dataset) {
    auto iterator = dataset.begin();
    EXPECT_EQ(iterator->numel(), 784);
    return iterator.save_state().numel();
  };
  EXPECT_LT(bytes_behind_first(rows.shuffle(10'000)), most);
  EXPECT_GT(bytes_behind_first(rows.shuffle(10'000)), most / 2);
  EXPECT_LT(bytes_behind_first(rows.shuffle(10'000).prefetch(100).repeat()), most + 24 * 100);

  // The elements of a cache are there once.
  const auto small = from_tensor_slices(at::zeros({2'000, 784}, at::kByte));
  auto cached = small.cache().shuffle(1000).repeat().begin();
  EXPECT_EQ(cached->numel(), 784);
  EXPECT_LT(cached.save_state().numel(), 1100 * 784 + 24 * 1000 + 3000);
  for (int i = 0; i < 2'000; ++i) ++cached;
  EXPECT_LT(cached.save_state().numel(), 2'000 * 784 + 24 * 1000 + 3000);
}

TEST(DatasetIteratorState, HoldsAFilledCache) {
  std::atomic<int> calls = 0;
  const auto make = [&calls] {
    return range(8)
        .map([&calls](const Tensor& x) {
          ++calls;
          return x;
        })
        .cache();
  };
  auto iterator = make().repeat(3).begin();
  for (int i = 0; i < 9; ++i) ++iterator;
  const auto anew = make();
  auto again = resumed(anew.repeat(3), iterator.save_state());
  calls = 0;
  EXPECT_EQ(rest(again).size(), 15);
  EXPECT_EQ(all(anew).size(), 8);
  EXPECT_EQ(calls, 0);
}

TEST(DatasetIteratorState, OfTextAndDictionariesAndAllDtypes) {
  using Sample = std::tuple<Strings, std::map<std::string, Tensor>>;
  const auto make = [] {
    return range(7)
        .map([](const Tensor& x) -> Sample {
          const std::map<std::string, Tensor> values{
              {"bool", x > 3}, {"half", x.to(at::kHalf)}, {"uint16", x.to(at::kUInt16)}, {"empty", at::ones({0, 3})}};
          return {Strings(str("text ", x.item<int64_t>())), values};
        })
        .shuffle(4, {.seed = 1})
        .batch(2);
  };
  auto iterator = make().begin();
  auto again = make().begin();
  again.restore_state(iterator.save_state());
  int steps = 0;
  for (; iterator != std::default_sentinel; ++iterator, ++again, ++steps) {
    const auto& [texts, values] = *iterator;
    const auto& [same_texts, same_values] = *again;
    EXPECT_EQ(texts, same_texts);
    for (const auto& [name, value] : values) {
      EXPECT_EQ(text(value), text(same_values.at(name))) << name;
      EXPECT_EQ(value.scalar_type(), same_values.at(name).scalar_type());
    }
  }
  EXPECT_EQ(steps, 4);
  EXPECT_TRUE(again == std::default_sentinel);
}

TEST(DatasetIteratorState, KeepsAnErrorThatWaits) {
  const auto source = range(10).map([](const Tensor& x) {
    if (x.item<int64_t>() == 4) throw Error(ErrorCode::unavailable, "the fifth");
    return x;
  });
  const auto twice = [](const Tensor& x) { return 2 * x; };
  for (const auto& dataset : {source.prefetch(100), source.map(twice, {.num_parallel_calls = 8})}) {
    auto iterator = dataset.begin();
    EXPECT_EQ(iterator->item<int64_t>(), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the error is there, or will come
    auto again = resumed(dataset, iterator.save_state());
    for (auto* it : {&iterator, &again}) {
      for (int i = 0; i < 3; ++i) ++*it;
      EXPECT_EQ(error_of([&] { ++*it; }), "unavailable: map: element 4: the fifth");
      EXPECT_EQ(code_of([&] { it->save_state(); }), ErrorCode::failed_precondition);
    }
  }
}

TEST(DatasetIteratorState, MakesAGeneratorsElementsAgain) {
  int64_t size = 6;
  const auto dataset = from_generator([&size] {
    return [left = size]() mutable -> std::optional<Tensor> {
      if (left == 0) return {};
      return at::arange(--left);
    };
  });
  auto iterator = dataset.begin();
  ++iterator;
  ++iterator;
  const Tensor state = iterator.save_state();
  auto again = resumed(dataset, state);
  EXPECT_EQ(rest(again), rest(iterator));
  size = 2;
  EXPECT_THAT(error_of([&] { resumed(dataset, state); }),
              HasSubstr("failed_precondition: restoring an iterator: 3 elements of a generator had been taken, and the "
                        "new one gives 2"));
}

TEST(DatasetIteratorState, IsSavedWhileThreadsWork) {
  const auto make = [] {
    const auto slow = [](const Tensor& x) {
      std::this_thread::yield();
      return x + 1;
    };
    return range(300).prefetch(1).map(slow, {.num_parallel_calls = 3}).prefetch(2).shuffle(5, {.seed = 1}).prefetch(7);
  };
  const std::vector<std::string> whole = all(make());
  auto iterator = make().begin();
  std::vector<std::string> seen;
  Tensor middle;
  for (; iterator != std::default_sentinel; ++iterator) {
    seen.push_back(text(*iterator));
    const Tensor state = iterator.save_state();
    if (seen.size() == 150) middle = state;
  }
  EXPECT_EQ(seen, whole);
  auto again = resumed(make(), middle);
  EXPECT_EQ(rest(again), std::vector(whole.begin() + 149, whole.end()));
}

class Kept : public StateVisitor {
 public:
  explicit Kept(Tensor* state, bool restoring) : state_(state), restoring_(restoring) {}

  bool restoring() const override { return restoring_; }
  bool has(const std::string&, bool now) override { return now; }
  void tensor(const std::string&, const Tensor&) override { FAIL(); }
  void number(const std::string&, int64_t&) override { FAIL(); }
  void number(const std::string&, double&) override { FAIL(); }
  void object(const std::string&, Savable&) override { FAIL(); }
  void opaque(const std::string& name, const std::function<Tensor()>& save,
              const std::function<void(const Tensor&)>& restore) override {
    EXPECT_EQ(name, "position");
    if (restoring_)
      restore(*state_);
    else
      *state_ = save();
  }

 private:
  Tensor* state_;
  bool restoring_;
};

TEST(DatasetIteratorState, IsSavable) {
  auto iterator = range(5).begin();
  ++iterator;
  Tensor state;
  Kept saving(&state, false), restoring(&state, true);
  static_cast<Savable&>(iterator).visit_state(saving);
  auto again = range(5).begin();
  static_cast<Savable&>(again).visit_state(restoring);
  EXPECT_EQ(rest(again), rest(iterator));
}

}  // namespace
}  // namespace tutti::data
