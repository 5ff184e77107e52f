#include "tutti/cluster/tf_config_cluster_resolver.h"

#include <charconv>
#include <limits>

#include "tutti/cluster/told_address.h"
#include "tutti/core/error.h"

namespace tutti::cluster {
namespace {

constexpr const char* kTfConfig = "TF_CONFIG";

struct TfConfig {
  ClusterSpec cluster;
  std::optional<std::string> task_type;
  std::optional<int> task_id;
  std::string rpc_layer;
  std::optional<std::string> session_master;
};

// 1 or "1": Kubeflow's operator writes the one, many scripts the other.
int read_task_index(JsonReader& reader) {
  int64_t index = -1;
  if (reader.at_text()) {
    const std::string digits = reader.text();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size()) index = -1;
  } else {
    index = reader.integer();
  }
  if (index < 0 || index > std::numeric_limits<int>::max())
    reader.fail("\"index\" of \"task\" must be the task's number, from 0");
  return static_cast<int>(index);
}

TfConfig read_tf_config(const std::string& text) {
  TfConfig config;
  JsonReader reader(text, kTfConfig);
  const auto read_task = [&](std::string_view key) {
    if (key == "type")
      config.task_type = reader.text();
    else if (key == "index")
      config.task_id = read_task_index(reader);
    else
      reader.skip();
  };
  reader.object([&](std::string_view key) {
    if (key == "cluster")
      config.cluster = ClusterSpec::read(reader);
    else if (key == "task")
      reader.object(read_task);
    else if (key == "rpc_layer")
      config.rpc_layer = reader.text();
    else if (key == "session_master")
      config.session_master = reader.text();
    else
      reader.skip();
  });
  reader.end();
  check_told_addresses(kTfConfig, config.cluster);
  return config;
}

TfConfig tf_config_of(const Environment& environment) {
  if (!environment.has(kTfConfig)) return {};
  try {
    return read_tf_config(environment.text(kTfConfig));
  } catch (const Error& error) {
    const std::string what = error.what();
    throw Error(ErrorCode::invalid_argument, what.starts_with(kTfConfig) ? what : str(kTfConfig, ": ", what));
  }
}

}  // namespace

TFConfigClusterResolver::TFConfigClusterResolver(const TFConfigClusterResolverOptions& options,
                                                 const Environment& environment)
    : ClusterResolver([&] {
        TfConfig config = tf_config_of(environment);
        if (config.cluster.num_tasks() <= 1 && !config.session_master) config.session_master = "";
        return Found{.spec = std::move(config.cluster),
                     .task_type = options.task_type ? options.task_type : config.task_type,
                     .task_id = options.task_id ? options.task_id : config.task_id,
                     .rpc_layer = options.rpc_layer.empty() ? config.rpc_layer : options.rpc_layer,
                     .environment = options.environment,
                     .master_of_all = config.session_master};
      }()) {}

}  // namespace tutti::cluster
