#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data {
namespace {

using graph::NodePtr;

// What distinguishes one node's properties from another's.
auto properties(const NodePtr& node) {
  return std::tuple(node->role, node->cardinality, node->batch_size, node->batch_size_of_rows, node->row_sizes_vary,
                    node->uniform, node->auto_shard_policy, node->inputs.size());
}

Numbers all(const NodePtr& node) {
  Numbers elements;
  graph::Pass pass(node);
  for (graph::Element element; pass.next(element);) {
    elements.emplace_back();
    for (const graph::Leaf& leaf : element.leaves())
      for (const double value : numbers(std::get<Tensor>(leaf))) elements.back().push_back(value);
  }
  return elements;
}

struct Operation {
  const char* name;
  NodePtr (*make)(const NodePtr& input);
};
void PrintTo(const Operation& operation, std::ostream* stream) { *stream << operation.name; }

bool even(const graph::Element& element) {
  return std::get<Tensor>(element.leaves()[0]).sum().item<int64_t>() % 2 == 0;
}
graph::Element same(graph::Element element) { return element; }
NodePtr alone(graph::Element element) { return graph::from_tensors(element.leaves(), element.keys()); }

class Rebuild : public testing::TestWithParam<Operation> {};

// On another input an operation is what it would have been made there.
TEST_P(Rebuild, IsTheOperationOnAnotherInput) {
  const NodePtr some = graph::batch(graph::range(0, 5, 1), 2, {});
  const NodePtr other = graph::batch(graph::range(10, 24, 1), 3, {.drop_remainder = true});
  const NodePtr node = GetParam().make(some);
  std::vector<NodePtr> inputs = node->inputs;
  ASSERT_EQ(inputs.back(), some);
  inputs.back() = other;
  const NodePtr rebuilt = node->rebuild(inputs);
  EXPECT_EQ(rebuilt->inputs, inputs);
  EXPECT_EQ(properties(rebuilt), properties(GetParam().make(other)));
  EXPECT_EQ(all(rebuilt), all(GetParam().make(other)));
}

constexpr Operation kOperations[] = {
    {"batch", [](const NodePtr& input) { return graph::batch(input, 2, {.drop_remainder = true}); }},
    {"cache", [](const NodePtr& input) { return graph::cache(input); }},
    {"concatenate", [](const NodePtr& input) { return graph::concatenate(graph::range(0, 2, 1), input); }},
    {"enumerate", [](const NodePtr& input) { return graph::enumerate(input, 3); }},
    {"filter", [](const NodePtr& input) { return graph::filter(input, even); }},
    {"interleave", [](const NodePtr& input) { return graph::interleave(input, alone, {.cycle_length = 2}); }},
    {"map", [](const NodePtr& input) { return graph::map(input, same); }},
    {"non_empty_shard", [](const NodePtr& input) { return graph::non_empty_shard(input, 2, 1); }},
    {"padded_batch", [](const NodePtr& input) { return graph::padded_batch(input, 2, {.padding_value = 7}); }},
    {"parallel_map", [](const NodePtr& input) { return graph::parallel_map(input, same, {.num_parallel_calls = 2}); }},
    {"prefetch", [](const NodePtr& input) { return graph::prefetch(input, 2); }},
    {"rebatch",
     [](const NodePtr& input) {
       return graph::rebatch(input, {1, 2}, {.drop_remainder = true});
     }},
    {"rebatch_legacy", [](const NodePtr& input) { return graph::rebatch_legacy(input, 2); }},
    {"repeat", [](const NodePtr& input) { return graph::repeat(input, 2); }},
    {"shard", [](const NodePtr& input) { return graph::shard(input, 2, 1); }},
    {"shuffle", [](const NodePtr& input) { return graph::shuffle(input, 4, {.seed = 5}); }},
    {"skip", [](const NodePtr& input) { return graph::skip(input, 1); }},
    {"take", [](const NodePtr& input) { return graph::take(input, 1); }},
    {"take_while", [](const NodePtr& input) { return graph::take_while(input, even); }},
    {"unbatch", [](const NodePtr& input) { return graph::unbatch(input); }},
    {"with_options",
     [](const NodePtr& input) { return graph::with_options(input, {.auto_shard_policy = AutoShardPolicy::hint}); }},
    {"zip",
     [](const NodePtr& input) {
       return graph::zip({graph::range(0, 9, 1), input});
     }},
};
INSTANTIATE_TEST_SUITE_P(Operations, Rebuild, testing::ValuesIn(kOperations),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tutti::data
