#include "tutti/tools/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::tools {
namespace {

struct Pipe {
  FileDescriptor reading, writing;
};

[[noreturn]] void throw_exhausted(const char* what) {
  throw Error(ErrorCode::resource_exhausted, str("starting a process: ", what, ": ", std::strerror(errno)));
}

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_exhausted("pipe");
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// All that the child needs between fork() and exec(), where it may neither allocate nor lock.
struct Start {
  std::vector<std::string> variables;
  std::vector<char*> arguments, environment;
  std::vector<int> inherited;
  int out = -1, err = -1, report = -1;
  sigset_t mask = {};
  pid_t parent = 0;
};

Start prepare(const ChildProcessOptions& options) {
  Start start;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!options.variables.contains(std::string(text.substr(0, text.find('='))))) start.variables.emplace_back(text);
  }
  for (const auto& [name, value] : options.variables) start.variables.push_back(str(name, '=', value));
  for (std::string& variable : start.variables) start.environment.push_back(variable.data());
  start.environment.push_back(nullptr);
  for (const std::string& argument : options.command) start.arguments.push_back(const_cast<char*>(argument.c_str()));
  start.arguments.push_back(nullptr);
  start.inherited = options.inherited;
  start.mask = options.signal_mask;
  start.parent = getpid();
  return start;
}

[[noreturn]] void become(const Start& start) {
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (const int descriptor : start.inherited) fcntl(descriptor, F_SETFD, 0);
  const bool is_ready = setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == start.parent &&
                        dup2(nothing, STDIN_FILENO) >= 0 && dup2(start.out, STDOUT_FILENO) >= 0 &&
                        dup2(start.err, STDERR_FILENO) >= 0 && sigprocmask(SIG_SETMASK, &start.mask, nullptr) == 0;
  if (is_ready) execvpe(start.arguments[0], start.arguments.data(), start.environment.data());
  const int why = errno;
  (void)!write(start.report, &why, sizeof why);
  _exit(127);
}

FileDescriptor open_log(const std::filesystem::path& path) {
  if (path.empty()) return {};
  FileDescriptor log(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log) throw Error(ErrorCode::not_found, str("the log ", path.string(), ": ", std::strerror(errno)));
  return log;
}

}  // namespace

ChildProcess::ChildProcess(const ChildProcessOptions& options, std::ostream& out, std::ostream& err)
    : name_(options.name),
      streams_{{{}, PrefixedLines(options.name, out)}, {{}, PrefixedLines(options.name, err)}},
      log_(open_log(options.log)) {
  if (options.command.empty()) throw Error(ErrorCode::invalid_argument, "a process needs a program");
  Pipe outs = make_pipe(), errs = make_pipe(), report = make_pipe();
  Start start = prepare(options);
  start.out = outs.writing.number();
  start.err = errs.writing.number();
  start.report = report.writing.number();
  pid_ = fork();
  if (pid_ < 0) throw_exhausted("fork");
  if (pid_ == 0) become(start);
  for (Pipe* pipe : {&outs, &errs, &report}) pipe->writing.reset();
  streams_[0].pipe = std::move(outs.reading);
  streams_[1].pipe = std::move(errs.reading);
  for (const Stream& stream : streams_) fcntl(stream.pipe.number(), F_SETFL, O_NONBLOCK);
  int why = 0;  // comes where exec() fails; where it does not, the pipe is closed
  if (read(report.reading.number(), &why, sizeof why) != sizeof why) return;
  waitpid(pid_, nullptr, 0);
  throw Error(ErrorCode::not_found, str("cannot start ", options.command[0], ": ", std::strerror(why)));
}

ChildProcess::~ChildProcess() {
  if (has_ended_) return;
  send(SIGKILL);
  waitpid(pid_, nullptr, 0);
}

int ChildProcess::exit_code() const { return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_); }

std::string ChildProcess::how_it_ended() const {
  if (!WIFSIGNALED(status_)) return str("exited with status ", WEXITSTATUS(status_));
  return str("died with signal ", WTERMSIG(status_), " (", strsignal(WTERMSIG(status_)), ')');
}

void ChildProcess::send(int signal) {
  if (!has_ended_) kill(-pid_, signal);
}

bool ChildProcess::poll_end() {
  if (has_ended_ || waitpid(pid_, &status_, WNOHANG) != pid_) return false;
  return has_ended_ = true;
}

void ChildProcess::read_stream(int which) {
  Stream& stream = streams_[which];
  char bytes[1 << 16];
  const ssize_t count = read(stream.pipe.number(), bytes, sizeof bytes);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return stream.pipe.reset();
  stream.lines.add({bytes, static_cast<size_t>(count)});
  if (log_ && write(log_.number(), bytes, static_cast<size_t>(count)) != count) {
    stream.lines.add(str("(its log cannot be written any more: ", std::strerror(errno), ")\n"));
    log_.reset();
  }
}

void ChildProcess::finish_streams() {
  for (int which = 0; which < kNumStreams; ++which) {
    Stream& stream = streams_[which];
    for (int reads = 0; stream.pipe && reads < 64; ++reads) read_stream(which);
    stream.pipe.reset();
    stream.lines.finish();
  }
}

}  // namespace tutti::tools
