#include "tutti/estimator/run_task.h"

#include <charconv>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"

namespace tutti::estimator {
namespace {

using Cluster = std::map<std::string, std::map<int64_t, std::string>>;

[[noreturn]] void refuse_config(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "TF_CONFIG: " + what);
}

int64_t index_of(std::string_view text) {
  int64_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size())
    refuse_config(str("the index '", text, "' is no whole number"));
  return index;
}

// What the variable says.
struct TfConfig {
  Cluster cluster = {};
  std::optional<std::string> type = {};
  std::optional<int64_t> index = {};
  std::optional<std::string> session_master = {};
  std::string eval_session_master = {};
  std::string model_dir = {};
  std::map<std::string, std::string> service = {};
};

// A list of addresses, or addresses by their index.
std::map<int64_t, std::string> read_job(JsonReader& json) {
  std::map<int64_t, std::string> tasks;
  if (json.at_array())
    json.array([&] {
      const auto index = static_cast<int64_t>(tasks.size());
      tasks[index] = json.text();
    });
  else
    json.object([&](std::string_view key) {
      const int64_t index = index_of(key);
      tasks[index] = json.text();
    });
  return tasks;
}

TfConfig read_config(const std::string& text) {
  TfConfig config;
  JsonReader json(text, "TF_CONFIG");
  const auto read_task = [&](std::string_view key) {
    if (key == "type")
      config.type = json.text();
    else if (key == "index")
      config.index = json.at_text() ? index_of(json.text()) : json.integer();
    else
      json.skip();
  };
  json.object([&](std::string_view key) {
    if (key == "cluster")
      json.object([&](std::string_view job) {
        const std::string name(job);
        config.cluster[name] = read_job(json);
      });
    else if (key == "task")
      json.object(read_task);
    else if (key == "service")
      json.object([&](std::string_view name) {
        const std::string copy(name);
        config.service[copy] = json.text();
      });
    else if (key == "model_dir")
      config.model_dir = json.text();
    else if (key == "session_master")
      config.session_master = json.text();
    else if (key == "eval_session_master")
      config.eval_session_master = json.text();
    else
      json.skip();
  });
  json.end();
  return config;
}

// How many places a job has; those that are not named count too.
int64_t num_places(const std::map<int64_t, std::string>& tasks) {
  return tasks.empty() ? 0 : tasks.rbegin()->first + 1;
}

void check_task(const TfConfig& config, const std::string& chief) {
  const auto job = config.cluster.find(chief);
  if (job == config.cluster.end()) refuse_config(str("the cluster has no '", chief, "'; it has one"));
  if (job->second.size() != 1)
    refuse_config(str("the cluster has ", job->second.size(), " of '", chief, "'; it has one"));
  if (!config.type || config.type->empty()) refuse_config("there is a cluster, and no task type");
  if (!config.index) refuse_config("there is a cluster, and no task index");
  if (*config.index < 0) refuse_config(str("the task index is ", *config.index, ", below 0"));
  if (*config.type == "evaluator") return;
  const auto own = config.cluster.find(*config.type);
  if (own == config.cluster.end() || !own->second.contains(*config.index))
    refuse_config(str("the task is ", *config.type, ' ', *config.index, ", which the cluster does not have"));
}

// The chief first, parameter servers last, the others by their names.
int64_t global_id(const TfConfig& config, const std::string& chief) {
  std::vector<std::string> order{chief};
  for (const auto& [job, tasks] : config.cluster)
    if (job != chief && job != "ps") order.push_back(job);
  order.push_back("ps");
  int64_t before = 0;
  for (const std::string& job : order) {
    if (job == *config.type) return before + *config.index;
    if (const auto found = config.cluster.find(job); found != config.cluster.end()) before += num_places(found->second);
  }
  return before;
}

int64_t num_tasks(const Cluster& cluster, const std::string& job) {
  const auto found = cluster.find(job);
  return found == cluster.end() ? 0 : static_cast<int64_t>(found->second.size());
}

RunTask task_in_cluster(const TfConfig& config) {
  const bool has_master = config.cluster.contains("master");
  const std::string chief = has_master ? "master" : "chief";
  if (has_master && config.cluster.contains("chief")) refuse_config("the cluster has a master and a chief; it has one");
  check_task(config, chief);
  RunTask task{.task_type = *config.type, .task_id = *config.index, .is_chief = *config.type == chief};
  if (*config.type == "evaluator") {
    if (has_master) refuse_config("the task is an evaluator, which a cluster with a master does not have");
    task.evaluation_master = config.eval_session_master;
    task.global_id_in_cluster = std::nullopt;
    task.num_worker_replicas = 0;
    return task;
  }
  task.cluster_spec = config.cluster;
  task.num_ps_replicas = num_tasks(config.cluster, "ps");
  task.num_worker_replicas = num_tasks(config.cluster, "worker") + num_tasks(config.cluster, chief);
  task.global_id_in_cluster = global_id(config, chief);
  const bool is_only_job = config.cluster.size() == 1;
  if (config.session_master)
    task.master = *config.session_master;
  else if (!is_only_job)
    task.master = "grpc://" + config.cluster.at(*config.type).at(*config.index);
  return task;
}

}  // namespace

RunTask read_run_task(const cluster::Environment& environment) {
  if (!environment.has("TF_CONFIG")) return {};
  TfConfig config;
  try {
    config = read_config(environment.text("TF_CONFIG"));
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument, error.what());
  }
  RunTask task;
  if (!config.cluster.empty()) {
    task = task_in_cluster(config);
  } else {
    if (config.type.value_or("worker") != "worker")
      refuse_config(str("the task is a ", *config.type, ", and there is no cluster; without one it is a worker"));
    if (config.index.value_or(0) != 0)
      refuse_config(str("the task has the index ", *config.index, ", and there is no cluster; without one it is 0"));
  }
  task.model_dir = config.model_dir;
  task.service = config.service;
  return task;
}

}  // namespace tutti::estimator
