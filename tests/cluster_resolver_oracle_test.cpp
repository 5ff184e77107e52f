// What TensorFlow 2.21 makes of TF_CONFIG, of Slurm's variables and of unions of clusters, and its rules for tasks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>

#include "tests/support/oracle_cases.h"
#include "tutti/cluster/host_list.h"
#include "tutti/cluster/roles.h"
#include "tutti/cluster/simple_cluster_resolver.h"
#include "tutti/cluster/slurm_cluster_resolver.h"
#include "tutti/cluster/tf_config_cluster_resolver.h"
#include "tutti/cluster/union_resolver.h"

namespace tutti::cluster {
namespace {

using oracle::Json;

template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}
Json json_of(const std::string& text) { return text.empty() ? Json() : Json(text); }  // empty where TensorFlow has None
Json json_of(const ClusterSpec& spec) { return Json::parse(to_string(spec)); }

// Whether an answer, or the failure to give one, is what was recorded.
bool answers(const char* what, const std::function<Json()>& answer, const Json& expected) {
  const bool must_fail = expected.is_object() && expected.contains("error");
  try {
    const Json given = answer();
    if (!must_fail && given == expected) return true;
    ADD_FAILURE() << what << " is " << given << ", recorded is " << expected;
  } catch (const Error& error) {
    if (must_fail && oracle::same_family(error.code(), expected.at("error"))) return true;
    ADD_FAILURE() << what << " throws " << error.what() << ", recorded is " << expected;
  }
  return false;
}

// Every member of "expected" has an answer here, and they are equal.
bool all_answer(const Json& expected, const std::map<std::string, std::function<Json()>>& answers_to) {
  bool all = true;
  for (const auto& [name, value] : expected.items()) all &= answers(name.c_str(), answers_to.at(name), value);
  return all;
}

template <class T>
std::optional<T> member(const Json& json, const char* name) {
  return json.contains(name) && !json.at(name).is_null() ? std::optional<T>(json.at(name).get<T>()) : std::nullopt;
}

bool tf_config(const Json& test) {
  const Json& given = test.at("constructor");
  Environment::Variables variables;
  if (const auto text = member<std::string>(test, "tf_config")) variables["TF_CONFIG"] = *text;
  // What TensorFlow reads anew for each answer is read once here: where the text is none, no answer comes.
  const auto resolver = [&] {
    return TFConfigClusterResolver({.task_type = member<std::string>(given, "task_type"),
                                    .task_id = member<int>(given, "task_id"),
                                    .rpc_layer = member<std::string>(given, "rpc_layer").value_or(""),
                                    .environment = member<std::string>(given, "environment").value_or("")},
                                   variables);
  };
  return all_answer(
      test.at("expected"),
      {{"cluster_spec", [&] { return json_of(resolver().cluster_spec()); }},
       {"task_type", [&] { return json_of(resolver().task_type()); }},
       {"task_id", [&] { return json_of(resolver().task_id()); }},
       {"rpc_layer", [&] { return json_of(resolver().rpc_layer()); }},
       {"environment", [&] { return given.contains("environment") ? Json(resolver().environment()) : Json(); }},
       {"master", [&] { return Json(resolver().master()); }},
       {"master_worker_0",
        [&] {
          return Json(resolver().master(Task{"worker", 0}));
        }},
       {"master_worker_0_http",
        [&] {
          return Json(resolver().master(Task{"worker", 0}, "http"));
        }},
       {"is_chief", [&] { return Json(is_chief(resolver().cluster_spec(), resolver().task())); }},
       {"id_in_cluster", [&] { return Json(id_in_cluster(resolver().cluster_spec(), resolver().task())); }},
       {"worker_count", [&] { return Json(worker_count(resolver().cluster_spec(), resolver().task_type())); }},
       {"collective_leader", [&] { return Json(collective_leader(resolver().cluster_spec(), resolver().task())); }},
       {"coordination_leader", [&] { return Json(coordination_leader(resolver().cluster_spec())); }}});
}

bool helpers(const Json& test) {
  const ClusterSpec spec = ClusterSpec::parse(test.at("cluster").dump());
  const auto type = member<std::string>(test, "task_type");
  const std::optional<Task> task =
      type ? std::optional(Task{*type, member<int>(test, "task_id").value_or(0)}) : std::nullopt;
  return all_answer(test.at("expected"), {{"is_chief", [&] { return Json(is_chief(spec, task)); }},
                                          {"id_in_cluster", [&] { return Json(id_in_cluster(spec, task)); }},
                                          {"worker_count", [&] { return Json(worker_count(spec, type)); }},
                                          {"collective_leader", [&] { return Json(collective_leader(spec, task)); }}});
}

bool union_of(const Json& test) {
  std::vector<ClusterResolver> resolvers;
  for (const Json& cluster : test.at("clusters"))
    resolvers.push_back(SimpleClusterResolver(
        ClusterSpec::parse(cluster.dump()),
        {.master = str('m', resolvers.size()), .task_type = "worker", .task_id = 0, .rpc_layer = "grpc"}));
  const UnionResolver resolver(resolvers);
  return all_answer(test.at("expected"), {{"cluster_spec", [&] { return json_of(resolver.cluster_spec()); }},
                                          {"task_type", [&] { return json_of(resolver.task_type()); }},
                                          {"task_id", [&] { return json_of(resolver.task_id()); }},
                                          {"master", [&] { return Json(resolver.master()); }},
                                          {"rpc_layer", [&] { return Json(resolver.rpc_layer()); }},
                                          {"master_worker_0", [&] {
                                             return Json(resolver.master(Task{"worker", 0}));
                                           }}});
}

bool slurm(const Json& test) {
  const Json& given = test.at("constructor");
  Environment::Variables variables;
  for (const auto& [name, value] : test.at("env").items()) variables[name] = value;
  unsetenv("CUDA_VISIBLE_DEVICES");
  const SlurmClusterResolver resolver(
      {.jobs = member<std::map<std::string, int>>(given, "jobs").value_or(std::map<std::string, int>()),
       .port_base = member<int>(given, "port_base").value_or(8888),
       .gpus_per_node = member<int>(given, "gpus_per_node"),
       .gpus_per_task = member<int>(given, "gpus_per_task").value_or(1),
       .auto_set_gpu = member<bool>(given, "auto_set_gpu").value_or(true)},
      variables);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const Json seen = visible ? Json(visible) : Json();
  unsetenv("CUDA_VISIBLE_DEVICES");
  return all_answer(test.at("expected"), {{"cluster_spec", [&] { return json_of(resolver.cluster_spec()); }},
                                          {"task",
                                           [&] {
                                             return Json({resolver.task_type().value(), resolver.task_id().value()});
                                           }},
                                          {"master", [&] { return Json(resolver.master()); }},
                                          {"cuda_visible_devices", [&] { return seen; }}});
}

bool slurm_hosts(const Json& test) {
  const Json hosts = expand_slurm_hosts(test.at("hostlist").get<std::string>());
  return hosts == test.at("expected");
}

bool slurm_counts(const Json& test) {
  const Json counts = expand_slurm_counts(test.at("text").get<std::string>());
  return counts == test.at("expected");
}

TEST(ClusterResolverOracle, IsMet) {
  const std::map<std::string, std::function<bool(const Json&)>> kinds{
      {"tf_config", tf_config},
      {"helpers", helpers},
      {"union", union_of},
      {"slurm", slurm},
      {"slurm_hostlist", slurm_hosts},
      {"slurm_tasks_per_node", slurm_counts},
  };
  oracle::run_cases("cluster_resolver.json", [&](const Json& test) { return kinds.at(test.at("kind"))(test); });
}

// TensorFlow takes an index below 0, and a list for an object without members.
TEST(ClusterResolverOracle, IsBettered) {
  int num_refused = 0;
  for (const Json& test : oracle::cases("cluster_resolver.json")) {
    const std::string name = test.at("name");
    if (name != "tf_config negative index" && name != "tf_config a list") continue;
    try {
      TFConfigClusterResolver({}, Environment::Variables{{"TF_CONFIG", test.at("tf_config").get<std::string>()}});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      ++num_refused;
    }
  }
  EXPECT_EQ(num_refused, 2);
}

}  // namespace
}  // namespace tutti::cluster
