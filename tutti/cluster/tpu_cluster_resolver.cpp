#include "tutti/cluster/tpu_cluster_resolver.h"

#include "tutti/cluster/told_address.h"
#include "tutti/core/error.h"

namespace tutti::cluster {
namespace {

constexpr std::string_view kGrpc = "grpc://";

struct Endpoints {
  std::string source;  // who says it
  std::string text;
};

Endpoints endpoints_of(const TPUClusterResolverOptions& options, const Environment& environment) {
  if (options.tpu) return {"tpu", *options.tpu};
  for (const char* name : {"KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_NAME"})
    if (environment.has(name)) return {name, environment.text(name)};
  throw Error(
      ErrorCode::failed_precondition,
      "no TPU is named: give its endpoint, \"grpc://host:8470\", or set TPU_NAME to it; \"local\" is this host");
}

std::vector<std::string> tpu_addresses(std::string_view endpoints) {
  std::vector<std::string> addresses;
  do {
    const size_t end = std::min(endpoints.find(','), endpoints.size());
    const std::string_view endpoint = endpoints.substr(0, end);
    if (!endpoint.starts_with(kGrpc) || endpoint.size() == kGrpc.size())
      throw Error(endpoint.empty() ? ErrorCode::invalid_argument : ErrorCode::unimplemented,
                  str("the TPU \"", endpoint.substr(0, 80),
                      "\" is no endpoint, and names are not looked up: give \"grpc://host:8470\", or \"local\""));
    if (addresses.size() == kMaxTasks)
      throw Error(ErrorCode::invalid_argument, str("a cluster has at most ", kMaxTasks, " tasks"));
    addresses.emplace_back(endpoint.substr(kGrpc.size()));
    endpoints.remove_prefix(std::min(end + 1, endpoints.size()));
  } while (!endpoints.empty());
  return addresses;
}

}  // namespace

TPUClusterResolver::TPUClusterResolver(const TPUClusterResolverOptions& options, const Environment& environment)
    : ClusterResolver([&] {
        Found found{.task_type = options.job_name, .task_id = 0, .master = ""};
        const auto [source, endpoints] = endpoints_of(options, environment);
        if (endpoints == "local") return found;
        const std::vector<std::string> addresses = tpu_addresses(endpoints);
        for (int i = 0; const std::string& address : addresses)
          check_told_address(source, {options.job_name, i++}, address);
        std::map<std::string, std::vector<std::string>> jobs{{options.job_name, addresses}};
        if (!options.coordinator_name.empty()) jobs[options.coordinator_name] = {options.coordinator_address};
        found.spec = jobs;
        found.rpc_layer = found.url_layer = "grpc";
        found.master = addresses.front();
        return found;
      }()) {}

}  // namespace tutti::cluster
