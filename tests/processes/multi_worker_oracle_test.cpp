// tests/oracle/multi_worker.json, by the processes of a `tutti launch` with as many workers as a case has; the cases of
// other numbers are counted and belong to the other launches.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <map>

#include "tests/processes/of_processes.h"
#include "tests/support/oracle.h"
#include "tests/support/watchdog.h"
#include "tutti/collectives/processes.h"
#include "tutti/core/str.h"
#include "tutti/data/tfrecord.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/multi_worker_mirrored_strategy.h"
#include "tutti/distribute/variable.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using oracle::equals, oracle::Json;
using Workers = MultiWorkerMirroredStrategy;

data::AutoShardPolicy policy_of(const std::string& name) {
  if (name == "OFF") return data::AutoShardPolicy::off;
  if (name == "FILE") return data::AutoShardPolicy::file;
  if (name == "DATA") return data::AutoShardPolicy::data;
  if (name == "AUTO") return data::AutoShardPolicy::auto_;
  throw std::runtime_error("no policy " + name);
}

// The operations behind the source, and behind the map.
template <class T>
data::Dataset<T> operations(data::Dataset<T> dataset, const Json& ops) {
  for (const Json& op : ops) {
    if (op.at("op") == "batch")
      dataset = dataset.batch(op.at("size"), {.drop_remainder = op.value("drop_remainder", false)});
    else if (op.at("op") == "policy")
      dataset = dataset.with_options({.auto_shard_policy = policy_of(op.at("value"))});
    else if (op.at("op") != "range" && op.at("op") != "tfrecord_files" && op.at("op") != "map")
      throw std::runtime_error("no operation " + op.at("op").get<std::string>());
  }
  return dataset;
}

bool same(const Tensor& value, const Json& recorded) { return equals(value, recorded); }
bool same(const Strings& value, const Json& recorded) {
  return recorded.at("dtype") == "string" && value.shape() == recorded.at("shape").get<std::vector<int64_t>>() &&
         std::ranges::equal(value.values(), recorded.at("data").get<std::vector<std::string>>());
}
bool same(const std::tuple<Tensor, Tensor>& value, const Json& recorded) {
  return equals(std::get<0>(value), recorded.at(0)) && equals(std::get<1>(value), recorded.at(1));
}

template <class Distributed>
bool same_steps(const Distributed& distributed, const Json& recorded) {
  size_t step = 0;
  bool all_same = true;
  for (const auto& values : distributed) {  // to its end, as all processes go there
    all_same = all_same && step < recorded.size() && same(values[0], recorded.at(step).at(0));
    ++step;
  }
  return all_same && step == recorded.size();
}

// Files that every process writes for itself, the same ones.
std::vector<std::filesystem::path> written(const Json& files) {
  const auto folder = std::filesystem::temp_directory_path() / str("tutti_multi_worker_oracle_", getpid());
  std::filesystem::create_directories(folder);
  std::vector<std::filesystem::path> paths;
  for (const Json& records : files) {
    paths.push_back(folder / std::to_string(paths.size()));
    data::TFRecordWriter writer(paths.back());
    for (const Json& record : records) writer.write(record.get<std::string>());
    writer.close();
  }
  return paths;
}

bool dataset(Workers& strategy, const Json& test, const Json& recorded) {
  const Json& ops = test.at("pipeline");
  if (ops.at(0).at("op") == "tfrecord_files")
    return same_steps(strategy.distribute(operations(data::tfrecord_dataset(written(ops.at(0).at("files"))), ops)),
                      recorded);
  const auto range = data::range(ops.at(0).at("n").get<int64_t>());
  if (ops.at(1).at("op") != "map") return same_steps(strategy.distribute(operations(range, ops)), recorded);
  const auto pairs = range.map([](const Tensor& x) { return std::tuple(x, x.to(at::kFloat) + 0.5); });
  return same_steps(strategy.distribute(operations(pairs, ops)), recorded);
}

bool from_function(Workers& strategy, const Json& test, const Json& recorded) {
  Json contexts = Json::array();
  const auto make = [&](const data::InputContext& context) {
    contexts.push_back({context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync});
    const auto dataset = operations(data::range(test.at("pipeline").at(0).at("n").get<int64_t>()), test.at("pipeline"));
    return test.at("shard") ? dataset.shard(context.num_input_pipelines, context.input_pipeline_id) : dataset;
  };
  const auto distributed = strategy.distribute_datasets_from_function(make);
  return same_steps(distributed, recorded.at("steps")) && contexts == recorded.at("contexts");
}

int id() { return get_replica_context().replica_id_in_sync_group(); }
ReduceOp op_of(const Json& test) { return parse_reduce_op(test.at("op").get<std::string>()); }

bool reduce(Workers& strategy, const Json& test, const Json& recorded) {
  const auto values = strategy.run([] { return at::tensor({id() + 1., 10. * (id() + 1)}, at::kFloat); });
  const Axes axes = test.at("axis").is_null() ? Axes() : Axes(test.at("axis").get<int64_t>());
  return equals(strategy.reduce(op_of(test), values, axes), recorded.at("reduced")) &&
         equals(strategy.local_results(values)[0], recorded.at("local").at(0));
}

bool reduce_plain(Workers& strategy, const Json& test, const Json& recorded) {
  const Tensor own = at::tensor({1. + strategy.processes()->rank(), 5.}, at::kFloat);
  return equals(strategy.reduce(op_of(test), own), recorded.at("reduced"));
}

bool all_reduce(Workers& strategy, const Json& test, const Json& recorded) {
  const auto results = strategy.run(
      [&] { return get_replica_context().all_reduce(op_of(test), at::scalar_tensor(id() + 1., at::kFloat)); });
  return equals(results[0], recorded.at("local").at(0));
}

bool gathers(Workers& strategy, const Json& test, const Json& recorded) {
  const auto rows = strategy.run([&] {
    return at::full({test.at("uneven") ? id() + 1 : 2, 2}, id(), at::TensorOptions(at::kFloat));
  });
  return equals(strategy.gather(rows, 0), recorded.at("gathered"));
}

bool variables(Workers& strategy, const Json&, const Json& recorded) {
  const int rank = strategy.processes()->rank();
  const auto [mean, sum] = strategy.build([&] {
    return std::pair(
        variable(at::scalar_tensor(10. + rank, at::kFloat), {.aggregation = VariableAggregation::mean}),
        variable(at::scalar_tensor(0., at::kFloat),
                 {.aggregation = VariableAggregation::sum, .synchronization = VariableSynchronization::on_read}));
  });
  bool holds = equals(strategy.local_results(mean)[0], recorded.at("initial_local").at(0));
  strategy.run([&, mean = mean, sum = sum] {
    mean.assign(at::scalar_tensor(id(), at::kFloat));
    sum.assign(at::scalar_tensor(id() + 1., at::kFloat));
  });
  holds &= equals(strategy.local_results(mean)[0].detach(), recorded.at("after_assign_id_mean").at(0));
  return holds & equals(gather(sum), recorded.at("on_read_sum_cross_read"));
}

bool properties(Workers& strategy, const Json&, const Json& recorded) {
  const Json ours = {{"num_replicas_in_sync", strategy.num_replicas_in_sync()},
                     {"worker", strategy.processes()->rank()},
                     {"should_checkpoint", strategy.should_checkpoint()},
                     {"should_save_summary", strategy.should_save_summary()},
                     {"local_replicas", strategy.num_local_replicas()}};
  return ours == recorded;
}

TEST(MultiWorkerOracle, Holds) {
  const Watchdog watchdog(std::chrono::seconds(120));
  MultiWorkerMirroredStrategy strategy({.devices = configure_logical_cpus(1), .communication_options = kCommunication});
  const auto rank = static_cast<size_t>(strategy.processes()->rank());
  const std::map<std::string, bool (*)(Workers&, const Json&, const Json&)> kinds = {
      {"dataset", dataset},           {"from_function", from_function}, {"reduce", reduce},
      {"reduce_plain", reduce_plain}, {"all_reduce", all_reduce},       {"gather", gathers},
      {"variable", variables},        {"properties", properties}};
  int run = 0, elsewhere = 0;
  for (const Json& test : oracle::cases("multi_worker.json")) {
    if (test.at("workers") != strategy.processes()->size()) {
      ++elsewhere;
      continue;
    }
    ++run;
    EXPECT_EQ(test.at("replicas_per_worker"), 1);
    try {
      EXPECT_TRUE(kinds.at(test.at("kind"))(strategy, test, test.at("expected_by_worker").at(rank))) << test.at("name");
    } catch (const Error& error) {
      ADD_FAILURE() << test.at("name") << ": " << error.what();
    }
  }
  std::cout << "multi_worker.json: " << run << " cases run, " << elsewhere << " of other numbers of workers\n";
  EXPECT_GT(run, 0);
}

}  // namespace
}  // namespace tutti
