// tests/oracle/rebatch.json: batch-size tables, the two rebatch rules, and whole distributions over the replicas of one
// process. Kinds and operations that tutti::data doesn't have yet are counted and printed by name.
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/oracle.h"
#include "tutti/core/error.h"
#include "tutti/data/distributed_dataset.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/input_context.h"
#include "tutti/data/rebatch.h"

namespace tutti::data {
namespace {

using oracle::Json;

struct NotYet {
  std::string what;
};

graph::NodePtr pipeline(const Json& ops);

// The functions of the cases' map(): `dict` gives {a: x, b: [2x, [x, x, x]]}, whose leaves come in this order.
graph::NodePtr map(const graph::NodePtr& input, const std::string& name) {
  const auto with = [&](std::vector<Tensor> (*f)(const Tensor&)) {
    return graph::map(input, [f](const graph::Element& element) {
      const std::vector<Tensor> results = f(std::get<Tensor>(element.leaves()[0]));
      return graph::Element({results.begin(), results.end()});
    });
  };
  if (name == "identity") return with([](const Tensor& x) { return std::vector{x}; });
  if (name == "square") return with([](const Tensor& x) { return std::vector{x * x}; });
  if (name == "pair") return with([](const Tensor& x) { return std::vector{x, x.to(at::kFloat) + 0.5}; });
  if (name == "matrix") return with([](const Tensor& x) { return std::vector{x.expand({2, 2})}; });
  if (name == "dict") return with([](const Tensor& x) { return std::vector{x, x * 2, x.expand({3})}; });
  if (name == "vector_of_x")
    return with([](const Tensor& x) { return std::vector{x.expand({x.item<int64_t>() % 3 + 1})}; });
  throw NotYet{"map " + name};
}

graph::NodePtr rebatch(const graph::NodePtr& input, const Json& op) {
  const Json& sizes = op.at("sizes");
  return graph::rebatch(input, sizes.is_array() ? sizes.get<std::vector<int64_t>>() : std::vector{sizes.get<int64_t>()},
                        {.drop_remainder = op.value("drop_remainder", false)});
}

AutoShardPolicy policy(const std::string& name) {
  if (name == "OFF") return AutoShardPolicy::off;
  if (name == "FILE") return AutoShardPolicy::file;
  if (name == "DATA") return AutoShardPolicy::data;
  if (name == "HINT") return AutoShardPolicy::hint;
  return AutoShardPolicy::auto_;
}

std::vector<graph::NodePtr> inputs_of(const Json& op) {
  std::vector<graph::NodePtr> inputs;
  for (const Json& input : op.at("inputs")) inputs.push_back(pipeline(input));
  return inputs;
}

Tensor from_values(const Json& values) {
  std::vector<int64_t> shape;
  for (const Json* level = &values; level->is_array(); level = &level->at(0))
    shape.push_back(static_cast<int64_t>(level->size()));
  return oracle::tensor({{"shape", shape}, {"dtype", "float32"}, {"data", values.flatten()}});
}

graph::NodePtr source(const Json& op) {
  const std::string name = op.at("op");
  if (name == "range") return graph::range(0, op.at("n"), 1);
  if (name == "from_tensors") return graph::from_tensors({from_values(op.at("value"))}, nullptr);
  if (name == "from_tensor_slices") return graph::from_tensor_slices({from_values(op.at("values"))}, nullptr);
  if (name == "zip") return graph::zip(inputs_of(op));
  if (name == "concatenate") return graph::concatenate(inputs_of(op).at(0), inputs_of(op).at(1));
  throw NotYet{name};
}

graph::NodePtr add_op(const graph::NodePtr& input, const Json& op) {
  const std::string name = op.at("op");
  if (name == "batch") return graph::batch(input, op.at("size"), {.drop_remainder = op.value("drop_remainder", false)});
  if (name == "rebatch") return rebatch(input, op);
  if (name == "map") return map(input, op.at("fn"));
  if (name == "take") return graph::take(input, op.at("n"));
  if (name == "skip") return graph::skip(input, op.at("n"));
  if (name == "repeat") return graph::repeat(input, op.value("n", kInfinite));
  if (name == "prefetch") return graph::prefetch(input, op.at("n"));
  if (name == "cache") return graph::cache(input);
  if (name == "unbatch") return graph::unbatch(input);
  if (name == "enumerate") return graph::enumerate(input, 0);
  if (name == "shard") return graph::shard(input, op.at("num"), op.at("index"));
  if (name == "padded_batch") return graph::padded_batch(input, op.at("size"), {});
  if (name == "filter_even")
    return graph::filter(input, [](const graph::Element& element) {
      return std::get<Tensor>(element.leaves()[0]).item<int64_t>() % 2 == 0;
    });
  if (name == "filter_batch_true") return graph::filter(input, [](const graph::Element&) { return true; });
  if (name == "flat_map_identity_batch")
    return graph::interleave(
        input, [](graph::Element element) { return graph::from_tensors(element.leaves(), element.keys()); },
        {.cycle_length = 1});
  if (name == "policy") return graph::with_options(input, {.auto_shard_policy = policy(op.at("value"))});
  throw NotYet{name};
}

graph::NodePtr pipeline(const Json& ops) {
  graph::NodePtr node = source(ops.at(0));
  for (size_t i = 1; i < ops.size(); ++i) node = add_op(node, ops.at(i));
  return node;
}

// The tensors of a recorded structure, in the order of our leaves (the members of an object come sorted).
void collect_leaves(const Json& recorded, std::vector<Json>& leaves) {
  if (recorded.is_object() && recorded.contains("dtype")) return leaves.push_back(recorded);
  for (const Json& part : recorded) collect_leaves(part, leaves);
}

bool same_element(const graph::Element& element, const Json& recorded) {
  std::vector<Json> expected;
  collect_leaves(recorded, expected);
  const std::vector<graph::Leaf> leaves = element.leaves();
  if (leaves.size() != expected.size()) return false;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (!oracle::equals(std::get<Tensor>(leaves[i]), expected[i])) return false;
  return true;
}

bool same_elements(const std::vector<graph::Element>& elements, const Json& recorded) {
  if (elements.size() != recorded.size()) return false;
  for (size_t i = 0; i < elements.size(); ++i)
    if (!same_element(elements[i], recorded[i])) return false;
  return true;
}

std::vector<graph::Element> run(const graph::NodePtr& node) {
  std::vector<graph::Element> elements;
  graph::Pass pass(node);
  for (graph::Element element; pass.next(element);) elements.push_back(element);
  return elements;
}

bool mirrored_dataset(const Json& test) {
  const int replicas = test.at("replicas");
  graph::ReplicaSteps steps(graph::deal_to_replicas(pipeline(test.at("pipeline")), replicas), replicas, {});
  size_t count = 0;
  for (auto step = steps.next(); !step.empty(); step = steps.next(), ++count)
    if (test.contains("error") || count >= test.at("expected").size() || !same_elements(step, test["expected"][count]))
      return false;
  return count == test.value("expected", Json::array()).size();
}

bool batch_sizes(const Json& test) {
  Json sizes = Json::array();
  for (int worker = 0; worker < test.at("num_workers"); ++worker)
    sizes.push_back(
        batch_sizes_for_worker(test.at("global_batch"), {.worker = worker,
                                                         .num_workers = test.at("num_workers"),
                                                         .replicas_per_worker = test.at("replicas_per_worker")}));
  return sizes == test.at("expected");
}

// The one case of this kind is told in words: leading sizes 4 and 6, rebatched to 2.
bool rebatch_error() {
  const graph::NodePtr mismatched = graph::from_tensors({at::zeros({4}), at::zeros({6})}, nullptr);
  return run(graph::rebatch(mismatched, {2}, {})).empty();
}

// Whether the case gave what was recorded; failures are thrown as Error.
bool holds(const Json& test) {
  const std::string kind = test.at("kind");
  if (kind == "batch_sizes_for_worker") return batch_sizes(test);
  if (kind == "rebatch_v2") return same_elements(run(pipeline(test.at("pipeline"))), test.value("expected", Json()));
  if (kind == "rebatch_legacy")
    return same_elements(run(graph::rebatch_legacy(pipeline(test.at("pipeline")), test.at("num_replicas"))),
                         test.value("expected", Json()));
  if (kind == "rebatch_error") return rebatch_error();
  if (kind == "mirrored_dataset") return mirrored_dataset(test);
  if (kind == "per_replica_batch_size")
    return InputContext{.num_replicas_in_sync = test.at("replicas")}.get_per_replica_batch_size(
               test.at("global_batch")) == test.value("expected", int64_t{-1});
  throw NotYet{kind};
}

TEST(RebatchOracle, EveryCaseThatCanRunHolds) {
  int run = 0;
  std::map<std::string, int> not_yet;
  for (const Json& test : oracle::cases("rebatch.json")) {
    try {
      const bool held = holds(test);
      ++run;
      EXPECT_TRUE(held && !test.contains("error")) << test.dump();
    } catch (const NotYet& missing) {
      ++not_yet[missing.what];
    } catch (const Error& error) {
      ++run;
      EXPECT_TRUE(test.contains("error") && error.code() == ErrorCode::invalid_argument)
          << error.what() << "\n  in " << test.dump();
    }
  }
  std::cout << "rebatch.json: " << run << " cases run; not yet supported:";
  for (const auto& [what, count] : not_yet) std::cout << "\n  " << count << " x " << what;
  std::cout << '\n';
  EXPECT_GT(run, 0);
}

}  // namespace
}  // namespace tutti::data
