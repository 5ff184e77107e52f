#include "tutti/cluster/dtensor_jobs_resolver.h"

#include "tutti/cluster/told_address.h"
#include "tutti/core/error.h"

namespace tutti::cluster {
namespace {

std::vector<std::string> read_jobs(std::string_view text) {
  std::vector<std::string> jobs;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end == 0 || end + 1 == text.size() || jobs.size() == kMaxTasks)
      throw Error(ErrorCode::invalid_argument,
                  str("DTENSOR_JOBS must be at most ", kMaxTasks, " addresses, \"a:2222,b:2222\"; after ", jobs.size(),
                      " of them comes \"", text.substr(0, 40), '"'));
    jobs.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return jobs;
}

}  // namespace

DTensorJobsResolver::DTensorJobsResolver(const Environment& environment)
    : ClusterResolver([&]() -> Found {
        const std::vector<std::string> jobs = read_jobs(environment.text("DTENSOR_JOBS"));
        if (jobs.empty()) return {};
        if (jobs.size() > 1 && !environment.has("DTENSOR_CLIENT_ID"))
          throw Error(ErrorCode::failed_precondition,
                      str("DTENSOR_CLIENT_ID is not set, and DTENSOR_JOBS has ", jobs.size(),
                          ": give each process its place in that list, from 0"));
        const int last = static_cast<int>(jobs.size()) - 1;
        const int id = environment.has("DTENSOR_CLIENT_ID") ? environment.integer("DTENSOR_CLIENT_ID", 0, last) : 0;
        const std::string name = environment.has("DTENSOR_JOB_NAME") ? environment.text("DTENSOR_JOB_NAME") : "worker";
        const ClusterSpec spec({{name, jobs}});
        check_told_addresses("DTENSOR_JOBS", spec);
        return {.spec = spec, .task_type = name, .task_id = id, .rpc_layer = "grpc"};
      }()) {}

}  // namespace tutti::cluster
