// tests/oracle/rebatch.json: batch-size tables, the two rebatch rules, auto-sharding, and whole distributions over the
// replicas of one process and over several input pipelines.
#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/oracle_cases.h"
#include "tests/support/temporary_folder.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/auto_shard.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/rebatch_for_replicas.h"
#include "tutti/data/graph/replica_steps.h"
#include "tutti/data/input_context.h"
#include "tutti/data/rebatch.h"
#include "tutti/data/text_line_dataset.h"
#include "tutti/data/tfrecord.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"

namespace tutti::data {
namespace {

using oracle::Json;

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
  if (name == "to_int")
    return graph::map(input, [](const graph::Element& element) {
      return graph::Element({at::scalar_tensor(std::stoll(std::get<Strings>(element.leaves()[0]).item()), at::kLong)});
    });
  throw std::runtime_error("no map " + name);
}

std::vector<int64_t> sizes_of(const Json& op) {
  const Json& sizes = op.at("sizes");
  return sizes.is_array() ? sizes.get<std::vector<int64_t>>() : std::vector{sizes.get<int64_t>()};
}

graph::NodePtr rebatch(const graph::NodePtr& input, const Json& op) {
  return graph::rebatch(input, sizes_of(op), {.drop_remainder = op.value("drop_remainder", false)});
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

// Nested lists of numbers.
Tensor from_values(const Json& values) {
  std::vector<int64_t> shape;
  Json data = values;
  while (data.is_array() && !data.empty() && data.front().is_array()) {
    shape.push_back(static_cast<int64_t>(data.front().size()));
    Json rows = Json::array();
    for (const Json& row : data) rows.insert(rows.end(), row.begin(), row.end());
    data = std::move(rows);
  }
  shape.insert(shape.begin(), static_cast<int64_t>(values.size()));
  return oracle::tensor({{"shape", shape}, {"dtype", "float32"}, {"data", data}});
}

// Writes the files of a case, in a folder of this process.
template <class Write>
std::vector<std::filesystem::path> written(const Json& files, Write write) {
  static const TemporaryFolder folder;
  static int next = 0;
  std::vector<std::filesystem::path> paths;
  for (const Json& records : files) {
    paths.push_back(folder / std::to_string(next++));
    write(paths.back(), records.get<std::vector<std::string>>());
  }
  return paths;
}

void write_lines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  std::ofstream file(path);
  for (const std::string& line : lines) file << line << '\n';
}

void write_tfrecords(const std::filesystem::path& path, const std::vector<std::string>& records) {
  TFRecordWriter writer(path);
  for (const std::string& record : records) writer.write(record);
  writer.close();
}

// The names of the files, each mapped to its records.
graph::NodePtr interleaved_tfrecords(const Json& files, const InterleaveOptions& options) {
  std::vector<std::string> names;
  for (const auto& path : written(files, write_tfrecords)) names.push_back(path.string());
  const auto read = [](const graph::Element& name) {
    return tfrecord_dataset({std::get<Strings>(name.leaves()[0]).item()}).node();
  };
  return graph::interleave(graph::from_tensor_slices({Strings(names)}, nullptr), read, options);
}

graph::NodePtr source(const Json& op) {
  const std::string name = op.at("op");
  if (name == "generator")
    return graph::from_generator([n = op.at("n").get<int64_t>()] {
      return [n, i = int64_t{0}]() mutable -> std::optional<graph::Element> {
        if (i == n) return std::nullopt;
        return graph::Element({at::scalar_tensor(i++, at::kLong)});
      };
    });
  if (name == "text_files") return text_line_dataset(written(op.at("files"), write_lines)).node();
  if (name == "tfrecord_files") return tfrecord_dataset(written(op.at("files"), write_tfrecords)).node();
  if (name == "tfrecord_files_flat_map") return interleaved_tfrecords(op.at("files"), {.cycle_length = 1});
  if (name == "tfrecord_files_interleave")
    return interleaved_tfrecords(op.at("files"),
                                 {.cycle_length = op.at("cycle_length"), .block_length = op.at("block_length")});
  if (name == "range") return graph::range(0, op.at("n"), 1);
  if (name == "from_tensors") return graph::from_tensors({from_values(op.at("value"))}, nullptr);
  if (name == "from_tensor_slices") return graph::from_tensor_slices({from_values(op.at("values"))}, nullptr);
  if (name == "zip") return graph::zip(inputs_of(op));
  if (name == "concatenate") return graph::concatenate(inputs_of(op).at(0), inputs_of(op).at(1));
  throw std::runtime_error("no source " + name);
}

graph::NodePtr add_op(const graph::NodePtr& input, const Json& op) {
  const std::string name = op.at("op");
  if (name == "batch") return graph::batch(input, op.at("size"), {.drop_remainder = op.value("drop_remainder", false)});
  if (name == "rebatch") return rebatch(input, op);
  if (name == "rebatch_for_replicas") return graph::rebatch_for_replicas(input, sizes_of(op));
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
  if (name == "shard_hint") return graph::shard(input, kShardHint, kShardHint);
  throw std::runtime_error("no operation " + name);
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

bool same_leaf(const graph::Leaf& leaf, const Json& recorded) {
  const auto* text = std::get_if<Strings>(&leaf);
  if (!text) return oracle::equals(std::get<Tensor>(leaf), recorded);
  return recorded.at("dtype") == "string" && text->shape() == recorded.at("shape").get<std::vector<int64_t>>() &&
         std::ranges::equal(text->values(), recorded.at("data").get<std::vector<std::string>>());
}

bool same_element(const graph::Element& element, const Json& recorded) {
  std::vector<Json> expected;
  collect_leaves(recorded, expected);
  const std::vector<graph::Leaf> leaves = element.leaves();
  return std::ranges::equal(leaves, expected, same_leaf);
}

bool same_elements(const std::vector<graph::Element>& elements, const Json& recorded) {
  return std::ranges::equal(elements, recorded, same_element);
}

// Of what never ends the cases have this many elements.
constexpr size_t kMaxElements = 40;

std::vector<graph::Element> run(const graph::NodePtr& node) {
  std::vector<graph::Element> elements;
  graph::Pass pass(node);
  for (graph::Element element; elements.size() < kMaxElements && pass.next(element);) elements.push_back(element);
  return elements;
}

const Json& expected(const Json& test) {
  static const Json none;
  return test.contains("expected") ? test["expected"] : none;
}

bool batch_sizes(const Json& test) {
  Json sizes = Json::array();
  for (int worker = 0; worker < test.at("num_workers"); ++worker)
    sizes.push_back(
        batch_sizes_for_worker(test.at("global_batch"), {.worker = worker,
                                                         .num_workers = test.at("num_workers"),
                                                         .replicas_per_worker = test.at("replicas_per_worker")}));
  return sizes == expected(test);
}

bool rebatch_v2(const Json& test) { return same_elements(run(pipeline(test.at("pipeline"))), expected(test)); }

bool rebatch_legacy(const Json& test) {
  return same_elements(run(graph::rebatch_legacy(pipeline(test.at("pipeline")), test.at("num_replicas"))),
                       expected(test));
}

// The one case of this kind is told in words: leading sizes 4 and 6, rebatched to 2.
bool rebatch_error(const Json&) {
  const graph::NodePtr mismatched = graph::from_tensors({at::zeros({4}), at::zeros({6})}, nullptr);
  return run(graph::rebatch(mismatched, {2}, {})).empty();
}

bool batch_size(const Json& test) {
  const int64_t size = graph::compute_batch_size(pipeline(test.at("pipeline")));
  return (size == kUnknown ? -1 : size) == expected(test);
}

graph::NodePtr under_policy(const Json& test) {
  return graph::with_options(pipeline(test.at("pipeline")), {.auto_shard_policy = policy(test.at("policy"))});
}

// What the pipeline of each worker gives, or how it fails.
using PipelineOf = std::function<graph::NodePtr(int worker)>;
bool each_worker(const Json& test, const PipelineOf& pipeline_of) {
  for (int worker = 0; worker < test.at("num_workers"); ++worker) {
    const Json& recorded = expected(test).at(static_cast<size_t>(worker));
    const bool fails = recorded.is_object() && recorded.contains("error");
    try {
      if (!same_elements(run(pipeline_of(worker)), fails ? Json() : recorded) || fails) return false;
    } catch (const Error& error) {
      if (!fails || !oracle::same_family(error.code(), recorded["error"])) throw;
    }
  }
  return true;
}

// TensorFlow has one op for what a program rebatches and what distribution does, and cuts both anew; here a program's
// sizes stay, and these cases are of distribution's.
Json with_rebatch_of_distribution(Json test) {
  for (Json& op : test.at("pipeline"))
    if (op.at("op") == "rebatch") op["op"] = "rebatch_for_replicas";
  return test;
}

bool auto_shard(const Json& recorded) {
  const Json test = with_rebatch_of_distribution(recorded);
  return each_worker(test, [&](int worker) {
    return graph::auto_shard(
        under_policy(test),
        {.num_pipelines = test.at("num_workers"), .index = worker, .num_replicas = test.at("num_replicas")});
  });
}

bool auto_shard_invalid(const Json& test) {
  graph::auto_shard(pipeline(test.at("pipeline")),
                    {.num_pipelines = test.at("num_workers"), .index = test.at("index")});
  return false;
}

bool worker_pipelines(const Json& test) {
  return each_worker(test, [&](int worker) {
    return graph::deal_to_replicas(under_policy(test), {.worker = worker,
                                                        .num_workers = test.at("num_workers"),
                                                        .replicas_per_worker = test.at("replicas_per_worker")});
  });
}

bool mirrored_dataset(const Json& test) {
  const int replicas = test.at("replicas");
  const graph::NodePtr dealt =
      graph::deal_to_replicas(pipeline(test.at("pipeline")), {.replicas_per_worker = replicas});
  graph::ReplicaSteps steps({dealt}, replicas, {});
  for (const Json& recorded : expected(test))
    if (!same_elements(steps.next(), recorded)) return false;
  return expected(test).size() == kMaxElements || steps.next().empty();
}

bool from_function(const Json& test) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(test.at("replicas"))});
  Json contexts = Json::array();
  const auto dataset = strategy.distribute_datasets_from_function([&](const InputContext& context) {
    contexts.push_back({context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync});
    return Dataset<Tensor>(pipeline(test.at("pipeline")));
  });
  auto iterator = dataset.begin();
  for (const Json& recorded : expected(test).at("steps")) {
    const auto step = iterator.next_as_optional();
    if (!step || !std::ranges::equal(step->values(), recorded, oracle::equals)) return false;
  }
  return contexts == expected(test).at("contexts") && !iterator.next_as_optional();
}

bool per_replica_batch_size(const Json& test) {
  return InputContext{.num_replicas_in_sync = test.at("replicas")}.get_per_replica_batch_size(
             test.at("global_batch")) == expected(test);
}

bool holds(const Json& test) {
  static const std::map<std::string, bool (*)(const Json&)> kinds{
      {"batch_sizes_for_worker", batch_sizes},
      {"rebatch_v2", rebatch_v2},
      {"rebatch_legacy", rebatch_legacy},
      {"rebatch_error", rebatch_error},
      {"compute_batch_size", batch_size},
      {"auto_shard", auto_shard},
      {"auto_shard_invalid", auto_shard_invalid},
      {"worker_pipelines", worker_pipelines},
      {"mirrored_dataset", mirrored_dataset},
      {"from_function", from_function},
      {"per_replica_batch_size", per_replica_batch_size},
  };
  return kinds.at(test.at("kind"))(test);
}

TEST(RebatchOracle, EveryCaseHolds) {
  oracle::run_cases("rebatch.json", [](const Json& test) { return holds(test); });
}

}  // namespace
}  // namespace tutti::data
