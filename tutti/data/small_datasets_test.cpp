// Datasets of no element and of one, behind every operation.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "tests/support/dataset_values.h"
#include "tests/support/temporary_folder.h"
#include "tutti/data/dataset.h"

namespace tutti::data {
namespace {

using DatasetOperation = std::function<Dataset<Tensor>(const Dataset<Tensor>&)>;

std::map<std::string, DatasetOperation> operations(const TemporaryFolder& folder) {
  using D = const Dataset<Tensor>&;
  const auto same = [](const Tensor& x) { return x + 0; };
  return {
      {"map", [=](D x) { return x.map(same); }},
      {"parallel map", [=](D x) { return x.map(same, {.num_parallel_calls = 3}); }},
      {"filter", [](D x) { return x.filter([](const Tensor&) { return true; }); }},
      {"flat_map", [](D x) { return x.flat_map([](const Tensor& y) { return from_tensors(y); }); }},
      {"interleave",
       [](D x) { return x.interleave([](const Tensor& y) { return from_tensors(y); }, {.cycle_length = 4}); }},
      {"parallel interleave",
       [](D x) {
         return x.interleave([](const Tensor& y) { return from_tensors(y); },
                             {.cycle_length = 4, .num_parallel_calls = 2});
       }},
      {"batch", [](D x) { return x.batch(3); }},
      {"parallel batch", [](D x) { return x.batch(3, {.num_parallel_calls = 2}); }},
      {"padded_batch", [](D x) { return x.padded_batch(3); }},
      {"rebatch", [](D x) { return x.batch(2).rebatch(5); }},
      {"unbatch", [](D x) { return x.batch(4).unbatch(); }},
      {"window", [](D x) { return x.window(2).flat_map([](const Dataset<Tensor>& w) { return w.batch(2); }); }},
      {"group_by_window",
       [](D x) {
         return x.group_by_window([](const Tensor&) { return 0; },
                                  [](int64_t, const Dataset<Tensor>& w) { return w.batch(2); }, 2);
       }},
      {"unique", [](D x) { return x.unique(); }},
      {"shuffle", [](D x) { return x.shuffle(7, {.seed = 1}); }},
      {"repeat", [](D x) { return x.repeat(1); }},
      {"endless repeat", [](D x) { return x.repeat().take(1); }},
      {"cache", [](D x) { return x.cache(); }},
      {"cache file", [&folder](D x) { return x.cache(folder / str("cache", x.cardinality())); }},
      {"prefetch", [](D x) { return x.prefetch(2); }},
      {"take", [](D x) { return x.take(5); }},
      {"skip", [](D x) { return x.skip(0); }},
      {"shard", [](D x) { return x.shard(3, 0); }},
      {"concatenate", [](D x) { return x.concatenate(x.take(0)); }},
      {"scan",
       [](D x) { return x.scan(at::zeros({}), [](const Tensor& n, const Tensor& y) { return std::pair(n + 1, y); }); }},
      {"ignore_errors", [](D x) { return x.ignore_errors(); }},
      {"zip", [](D x) { return zip(x, x).map([](const Tensor& y, const Tensor&) { return y; }); }},
      {"enumerate", [](D x) { return x.enumerate().map([](const Tensor&, const Tensor& y) { return y; }); }},
  };
}

TEST(SmallDatasets, GoThroughEveryOperationAndComeBackFromTheirStates) {
  const TemporaryFolder folder;
  for (const int64_t count : {0, 1})
    for (const auto& [name, operation] : operations(folder)) {
      const Dataset<Tensor> dataset = operation(range(7, 7 + count));
      for (int pass = 0; pass < 2; ++pass) {
        const Numbers seen = numbers(dataset);
        EXPECT_EQ(seen, Numbers(static_cast<size_t>(count), {7})) << name << " of " << count;
      }
      const int64_t said = dataset.cardinality();
      EXPECT_TRUE(said < 0 || said == count) << name << " says " << said;
      auto iterator = dataset.begin();
      const auto at_begin = iterator.save_state();
      for (; iterator != dataset.end(); ++iterator) {
      }
      const auto at_end = iterator.save_state();
      auto other = dataset.begin();
      other.restore_state(at_end);
      EXPECT_TRUE(other == dataset.end()) << name << " of " << count;
      other.restore_state(at_begin);
      EXPECT_EQ(other == dataset.end(), count == 0) << name << " of " << count;
      if (count == 1) {
        EXPECT_EQ(numbers(*other), std::vector<double>{7}) << name;
      }
    }
}

}  // namespace
}  // namespace tutti::data
