#pragma once

#include <signal.h>
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tutti/core/file_descriptor.h"
#include "tutti/tools/prefixed_lines.h"

namespace tutti::tools {

struct ChildProcessOptions {
  std::string name = {};                              // in front of its lines: "worker 1"
  std::vector<std::string> command = {};              // the program, found as a shell finds it, and its arguments
  std::map<std::string, std::string> variables = {};  // set besides this process's own
  std::vector<int> inherited = {};                    // file descriptors that it gets under the same numbers
  sigset_t signal_mask = {};                          // that it begins with
  std::filesystem::path log = {};                     // where its bytes go too, at the end; empty: nowhere
};

// A running program, a process group of its own, that is killed when this process ends. Its standard input is empty,
// what it prints comes here. Killed and waited for on destruction.
class ChildProcess {
 public:
  // Throws: not_found for a program that cannot be started, resource_exhausted.
  ChildProcess(const ChildProcessOptions& options, std::ostream& out, std::ostream& err);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  bool has_ended() const { return has_ended_; }
  // As the shell has it: the exit status, or 128 and the number of the signal. Of one that has ended.
  int exit_code() const;
  // "exited with status 3", "died with signal 9 (Killed)".
  std::string how_it_ended() const;

  // To its process group, if it still runs.
  void send(int signal);
  // Notes whether it has ended. Returns whether it has since the last call.
  bool poll_end();

  // What it prints, to be read when there is something (poll for POLLIN); -1 when nothing will come any more.
  static constexpr int kNumStreams = 2;
  int stream(int which) const { return streams_[which].pipe.number(); }
  void read_stream(int which);
  // Reads what is there and writes lines that have no end.
  void finish_streams();

 private:
  struct Stream {
    FileDescriptor pipe;
    PrefixedLines lines;
  };

  std::string name_;
  Stream streams_[kNumStreams];
  FileDescriptor log_;
  pid_t pid_ = -1;
  bool has_ended_ = false;
  int status_ = 0;
};

}  // namespace tutti::tools
