// What TensorFlow's distributed variables did (tests/oracle/variables.json), case by case. Its eager and function modes
// are one here.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <stdexcept>

#include "tests/support/oracle_cases.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using oracle::Json;

static_assert(!std::is_constructible_v<VariableValue, const char*>, "a variable takes no text");

MirroredStrategy& strategy_of(int replicas) {
  static std::map<int, std::unique_ptr<MirroredStrategy>> strategies;
  auto& strategy = strategies[replicas];
  if (!strategy)
    strategy.reset(new MirroredStrategy({.devices = configure_logical_cpus(static_cast<size_t>(replicas))}));
  return *strategy;
}

int replica_id() { return get_replica_context().replica_id_in_sync_group(); }

VariableAggregation aggregation(const Json& test) {
  using enum VariableAggregation;
  static const std::map<std::string, VariableAggregation> names{
      {"NONE", none}, {"SUM", sum}, {"MEAN", mean}, {"ONLY_FIRST_REPLICA", only_first_replica}};
  return names.at(test.at("aggregation"));
}

VariableSynchronization synchronization(const Json& test) {
  using enum VariableSynchronization;
  static const std::map<std::string, VariableSynchronization> names{
      {"AUTO", auto_}, {"NONE", none}, {"ON_WRITE", on_write}, {"ON_READ", on_read}};
  return names.at(test.at("synchronization"));
}

std::string dtype(const Json& test) { return test.value("dtype", "float32"); }

Tensor scalar(double value, const std::string& dtype) {
  return oracle::tensor({{"shape", Json::array()}, {"dtype", dtype}, {"data", {value}}});
}

Tensor vector(const std::vector<double>& values) {
  return oracle::tensor({{"shape", {values.size()}}, {"dtype", "float32"}, {"data", values}});
}

// A case: the variable that it is about, and the strategy of as many replicas.
struct Case {
  const Json& test;
  MirroredStrategy& strategy = strategy_of(test.at("replicas"));
  Variable made = strategy.build([&] {
    const Tensor initial =
        test.contains("initial_vector") ? vector(test.at("initial_vector")) : scalar(test.at("initial"), dtype(test));
    return variable(initial, {.aggregation = aggregation(test), .synchronization = synchronization(test)});
  });
};

std::string type_of(const Variable& variable) {
  const std::string text = str(variable);
  return text.substr(0, text.find_first_of(" :"));
}

bool equal(const std::vector<Tensor>& values, const Json& recorded) {
  bool all = values.size() == recorded.size();
  for (size_t i = 0; all && i < values.size(); ++i) all = oracle::equals(values[i], recorded[i]);
  return all;
}

// What is read outside of replicas, or the failure to.
bool reads(const Variable& variable, const Json& recorded) {
  if (!recorded.contains("error")) return oracle::equals(variable.value(), recorded);
  try {
    variable.value();
  } catch (const Error& error) {
    return oracle::same_family(error.code(), recorded.at("error"));
  }
  return false;
}

bool state_is(const Variable& variable, const Json& expected) {
  return equal(variable.components(), expected.at("components")) &&
         (!expected.contains("cross_read") || reads(variable, expected.at("cross_read"))) &&
         (!expected.contains("type") || type_of(variable) == expected.at("type"));
}

bool expected_state(const Case& c) { return state_is(c.made, c.test.at("expected")); }

bool create(const Json& test) { return expected_state(Case{test}); }

bool replica_read(const Json& test) {
  const Case c{test};
  const Json& expected = test.at("expected");
  const auto per_replica = [&](const char* form, auto read) {
    return equal(c.strategy.run(read).values(), expected.at(form));
  };
  return per_replica("read_value", [&] { return c.made.value(); }) &&
         per_replica("value", [&] { return local(c.made); }) && per_replica("plus_one", [&] { return c.made + 1; }) &&
         per_replica("identity", [&] { return c.made.alias(); });
}

void assign(const Variable& variable, const std::string& op, const VariableValue& value) {
  if (op == "assign") return static_cast<void>(variable.assign(value));
  if (op == "assign_add") return static_cast<void>(variable.assign_add(value));
  if (op == "assign_sub") return static_cast<void>(variable.assign_sub(value));
  throw std::runtime_error("no op " + op);
}

constexpr int64_t kPlain = 5;

VariableValue value_in_replica(const Json& test) {
  const std::string value = test.at("value");
  if (value == "plain") return kPlain;
  if (value == "same") return scalar(kPlain, dtype(test));
  if (value == "id") return scalar(2 + replica_id() * test.at("step").get<double>(), dtype(test));
  throw std::runtime_error("no value " + value);
}

bool replica_assign(const Json& test) {
  const Case c{test};
  const auto read = c.strategy.run([&] {
    assign(c.made, test.at("op"), value_in_replica(test));
    return c.made.value();
  });
  return equal(read.values(), test.at("expected").at("replica_reads")) && expected_state(c);
}

PerReplica<Tensor> per_replica_values(const Json& test) {
  std::vector<Tensor> values;
  for (const Json& value : test.at("per_replica_values")) values.push_back(oracle::tensor(value));
  return PerReplica<Tensor>(values);
}

VariableValue value_outside(const Json& test) {
  const std::string value = test.at("value");
  if (value == "plain") return kPlain;
  if (value == "tensor") return scalar(kPlain, dtype(test));
  if (value == "per_replica") return per_replica_values(test);
  throw std::runtime_error("no value " + value);
}

bool cross_assign(const Json& test) {
  const Case c{test};
  assign(c.made, test.at("op"), value_outside(test));
  return expected_state(c);
}

bool extended_update(const Json& test) {
  const Case c{test};
  const auto update = [op = test.at("op").get<std::string>()](const Tensor& component, const Tensor& value) {
    assign(Variable(component), op, value);
  };
  c.strategy.update(c.made, update, per_replica_values(test));
  return expected_state(c);
}

void scatter(const Variable& variable, const std::string& op, const Tensor& indices, const Tensor& values) {
  using Scatter = void (*)(const Variable&, const Tensor&, const Tensor&);
  static const std::map<std::string, Scatter> ops{
      {"scatter_add", [](auto& v, auto& i, auto& x) { v.scatter_add(i, x); }},
      {"scatter_sub", [](auto& v, auto& i, auto& x) { v.scatter_sub(i, x); }},
      {"scatter_mul", [](auto& v, auto& i, auto& x) { v.scatter_mul(i, x); }},
      {"scatter_div", [](auto& v, auto& i, auto& x) { v.scatter_div(i, x); }},
      {"scatter_min", [](auto& v, auto& i, auto& x) { v.scatter_min(i, x); }},
      {"scatter_max", [](auto& v, auto& i, auto& x) { v.scatter_max(i, x); }},
      {"scatter_update", [](auto& v, auto& i, auto& x) { v.scatter_update(i, x); }}};
  ops.at(op)(variable, indices, values);
}

bool scatter(const Json& test) {
  const Case c{test};
  const auto read = c.strategy.run([&] {
    const int plus = test.at("plus_replica_id") ? replica_id() : 0;
    scatter(c.made, test.at("op"), vector(test.at("indices")).to(at::kLong), vector(test.at("slices")) + plus);
    return c.made.value();
  });
  return equal(read.values(), test.at("expected").at("replica_reads")) && expected_state(c);
}

// Single calls, named in words.
namespace other {

// TensorFlow's names end in the number of an op's output.
std::vector<std::string> component_names(const Variable& variable) {
  std::vector<std::string> names;
  for (const Tensor& component : variable.components()) names.push_back(component.name() + ":0");
  return names;
}

bool created_inside_run(const Json& test) {
  const auto made = strategy_of(2).run([] { return variable(scalar(1.5, "float32"), {.name = "w"}); });
  const Json& expected = test.at("expected");
  return made[0].is_same(made[1]) == expected.at("same_object") &&
         component_names(made[0]) == expected.at("names").get<std::vector<std::string>>() &&
         state_is(made[0], expected);
}

bool assign_wrong_shape(const Json&) {
  strategy_of(2).build([] { return variable(scalar(1, "float32")); }).assign(vector({1, 2}));
  return true;
}

bool deep_copy(const Json& test) {
  const auto original = strategy_of(2).build([] { return variable(scalar(1, "float32")); });
  const auto copy = strategy_of(2).build([&] { return variable(original); });
  copy.assign(3);
  return (original.value().item<float>() == 1 && copy.value().item<float>() == 3) == test.at("expected");
}

bool int_variable_mean(const Json&) {
  strategy_of(2).build([] { return variable(scalar(1.5, "int32"), {.aggregation = VariableAggregation::mean}); });
  return true;
}

bool names_of_abc(const Json& test) {
  const auto made = strategy_of(2).build([] { return variable(scalar(1, "float32"), {.name = "abc"}); });
  return component_names(made) == test.at("expected").get<std::vector<std::string>>();
}

bool initializer_calls(const Json& test) {
  int calls = 0;
  const auto made = strategy_of(2).build([&] {
    ++calls;
    return variable(scalar(1, "float32"));
  });
  return calls == test.at("expected").at("initializer_calls") && state_is(made, test.at("expected"));
}

bool bool_assign_false(const Json& test) {
  const auto made = strategy_of(2).build([] { return variable(scalar(1, "bool")); });
  return equal(made.assign(false).components(), test.at("expected"));
}

bool run(const Json& test) {
  static const std::map<std::string, bool (*)(const Json&)> calls{
      {"other created inside run", created_inside_run},
      {"other assign wrong shape", assign_wrong_shape},
      {"other deep copy", deep_copy},
      {"other int variable MEAN float init", int_variable_mean},
      {"other component names of a variable named abc", names_of_abc},
      {"other initializer calls", initializer_calls},
      {"other bool variable assign false", bool_assign_false}};
  return calls.at(test.at("name"))(test);
}

}  // namespace other

// Under a strategy of so many replicas, or under none.
Variable variable_of_seven(const Json& test, int replicas) {
  const auto make = [&] {
    return variable(scalar(7, "float32"), {.aggregation = aggregation(test), .synchronization = synchronization(test)});
  };
  return replicas == 0 ? make() : strategy_of(replicas).build(make);
}

bool checkpoint(const Json& test) {
  const TemporaryFolder folder;
  const int replicas = test.at("save_replicas");
  const Variable saved = variable_of_seven(test, replicas);
  if (replicas > 0 && test.at("synchronization") == "ON_READ")
    strategy_of(replicas).run(
        [&] { saved.assign(scalar(2 + replica_id() * test.at("step").get<double>(), "float32")); });
  const std::vector<Tensor> before = saved.components();
  Checkpoint({{"v", saved}}).write(folder.path() / "c");

  const Variable restored = variable_of_seven(test, test.at("restore_replicas"));
  Checkpoint({{"v", restored}}).restore(folder.path() / "c").assert_consumed();
  const Json& expected = test.at("expected");
  const tutti::checkpoint::Reader reader(tutti::checkpoint::posix_file_system(), folder.path() / "c");
  return equal(before, expected.at("components_before")) &&
         oracle::equals(reader.read("v"), expected.at("stored_value")) &&
         equal(restored.components(), expected.at("components_after")) &&
         reads(restored, expected.at("cross_read_after"));
}

TEST(VariablesOracle, VariablesDoWhatTensorFlowsDo) {
  static const std::map<std::string, bool (*)(const Json&)> kinds{{"create", create},
                                                                  {"replica_read", replica_read},
                                                                  {"replica_assign", replica_assign},
                                                                  {"cross_assign", cross_assign},
                                                                  {"extended_update", extended_update},
                                                                  {"scatter", scatter},
                                                                  {"checkpoint", checkpoint},
                                                                  {"other", other::run}};
  oracle::run_cases("variables.json", [](const Json& test) { return kinds.at(test.at("kind"))(test); });
}

}  // namespace
}  // namespace tutti
