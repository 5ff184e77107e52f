// Strings as leaves: every operation that moves elements moves text.
#include <ATen/ops/arange.h>
#include <gmock/gmock.h>

#include <set>

#include "tests/support/dataset_values.h"
#include "tutti/data/distributed_dataset.h"
#include "tutti/data/distributed_tensors.h"

namespace tutti::data {
namespace {

const Strings kLetters(std::vector<std::string>{"a", "b", "c", "d", "e"});

Strings row(std::vector<std::string> values) { return Strings(std::move(values)); }

std::vector<Strings> all(const Dataset<Strings>& dataset) {
  std::vector<Strings> values;
  for (const Strings& value : dataset) values.push_back(value);
  return values;
}

TEST(Text, IsSlicedBatchedAndUnbatched) {
  const auto letters = from_tensor_slices(kLetters);
  EXPECT_EQ(all(letters).size(), 5U);
  EXPECT_EQ(all(letters)[1], Strings("b"));
  EXPECT_EQ(all(letters.batch(3)), (std::vector{row({"a", "b", "c"}), row({"d", "e"})}));
  EXPECT_EQ(all(letters.batch(2).unbatch()), all(letters));
  EXPECT_EQ(all(letters.batch(3).rebatch(2)), (std::vector{row({"a", "b"}), row({"c", "d"}), row({"e"})}));
  EXPECT_EQ(all(from_tensors(kLetters).batch(1))[0].shape(), (std::vector<int64_t>{1, 5}));
}

TEST(Text, IsShuffledCachedRepeatedAndPrefetched) {
  const auto shuffled = from_tensor_slices(kLetters).shuffle(5, {.seed = 1}).batch(5);
  const auto batch = all(shuffled)[0];
  EXPECT_EQ(std::set(batch.values().begin(), batch.values().end()), (std::set<std::string>{"a", "b", "c", "d", "e"}));
  const auto cached = from_tensor_slices(kLetters).cache();
  EXPECT_EQ(all(cached), all(cached));
  EXPECT_EQ(all(cached.batch(5).prefetch(1).repeat(2)), (std::vector{kLetters, kLetters}));
}

TEST(Text, GoesWithTensors) {
  const auto pairs = from_tensor_slices(kLetters, at::arange(5)).batch(2);
  std::vector<int64_t> labels;
  for (const auto& [text, label] : pairs) {
    EXPECT_EQ(text.shape()[0], label.size(0));
    labels.push_back(label[0].item<int64_t>());
  }
  EXPECT_EQ(labels, (std::vector<int64_t>{0, 2, 4}));
  const auto texts = pairs.map([](const Strings& text, const Tensor&) { return text; });
  static_assert(std::is_same_v<decltype(texts), const Dataset<Strings>>);
  EXPECT_EQ(all(texts).back(), row({"e"}));
}

TEST(Text, IsDividedAmongReplicas) {
  std::vector<std::vector<Strings>> steps;
  for (const auto& step : DistributedDataset(from_tensor_slices(kLetters).batch(4), 2)) steps.push_back(step.values());
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0], (std::vector{row({"a", "b"}), row({"c", "d"})}));
  EXPECT_EQ(steps[1], (std::vector{row({"e"}), row({})}));
  EXPECT_EQ(distribute_tensors(kLetters, 2)[1], row({"d", "e"}));
}

TEST(Text, ThatDiffersInShapeIsRefusedByBatch) {
  const auto mixed = from_tensors(Strings("a")).concatenate(from_tensors(kLetters)).batch(2);
  EXPECT_THAT(error_of([&] { *mixed.begin(); }), ::testing::HasSubstr("leaf 0 is Strings [5] in element 1 of a batch"));
}

}  // namespace
}  // namespace tutti::data
