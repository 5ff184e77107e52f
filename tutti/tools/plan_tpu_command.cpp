#include "tutti/tools/plan_tpu_command.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tools/process_set.h"
#include "tutti/tpu/tpu_plan.h"

namespace tutti::tools {
namespace {

std::filesystem::path temporary_folder() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (!error) return folder;
  const char* const named = std::getenv("TMPDIR");
  throw Error(ErrorCode::failed_precondition,
              str("the folder of temporary files", named ? str(", '", named, "' by TMPDIR,") : "",
                  " cannot be used: ", error.message()));
}

// An empty file, removed in the end.
class ReportFile {
 public:
  ReportFile() : path_((temporary_folder() / "tutti_plan.XXXXXX").string()) {
    const int file = mkstemp(path_.data());
    if (file < 0)
      throw Error(ErrorCode::not_found,
                  str("a file for the plan, ", path_, ", cannot be made: ", std::strerror(errno)));
    close(file);
  }
  ~ReportFile() { unlink(path_.c_str()); }
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;

  const std::string& path() const { return path_; }
  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  std::string path_;
};

constexpr std::chrono::seconds kGrace{5};

// Returns the status.
int plan_tpu(const std::string& topology, const std::vector<std::string>& command, std::ostream& out,
             std::ostream& err) {
  const ReportFile report;
  SignalWatch signals;
  ProcessSet processes(signals, kGrace);
  processes.add(std::make_unique<ChildProcess>(
      ChildProcessOptions{.name = topology,
                          .command = command,
                          .variables = {{tpu::kPlanVariable, topology}, {tpu::kPlanReportVariable, report.path()}},
                          .signal_mask = signals.old_mask()},
      err, err));
  std::string end;
  int status = 0;
  processes.wait([&](int, const ChildProcess& process) {
    end = process.how_it_ended();
    status = process.exit_code();
  });
  const std::string text = report.text();
  if (!text.empty()) {
    out << text << std::flush;
    return status;
  }
  err << "tutti: no plan for " << topology << ": " << command[0] << ' ' << end
      << " before a TPUStrategy compiled a function of it. Its words are above; it is to train by a TPUStrategy, by "
         "fit "
         "or in a function, for three steps at least\n"
      << std::flush;
  return 2;
}

}  // namespace

int plan_tpus(const TpuPlanRequest& request, std::ostream& out, std::ostream& err) {
  if (request.command.empty()) throw Error(ErrorCode::invalid_argument, "which program? Name it behind --tpu NAME");
  if (request.command.front().starts_with('-'))
    throw Error(ErrorCode::invalid_argument,
                str("there is no option ", request.command.front(), "; `tutti plan --help` tells them"));
  int status = 0;
  for (const std::string& topology : request.topologies)
    status = std::max(status, plan_tpu(topology, request.command, out, err));
  return status;
}

}  // namespace tutti::tools
