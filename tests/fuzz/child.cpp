#include "child.h"

#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "tutti/core/str.h"

namespace tutti::fuzz {
namespace {

void write_all(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t count = write(file, text.data() + done, text.size() - done);
    if (count <= 0) _exit(3);
    done += static_cast<size_t>(count);
  }
}

}  // namespace

ChildEnd in_child(const std::function<void(const std::function<void(const std::string&)>& give)>& f, int seconds) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) throw std::runtime_error("in_child: no pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("in_child: no process");
  if (child == 0) {
    close(pipe_ends[0]);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(static_cast<unsigned>(seconds));
    at::set_num_threads(1);  // also makes LibTorch's pool of threads anew, which must not happen in two threads at once
    f([&](const std::string& text) { write_all(pipe_ends[1], text); });
    _exit(0);  // without the destructors of what the parent made
  }
  close(pipe_ends[1]);
  ChildEnd end;
  char buffer[4096];
  for (ssize_t count; (count = read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
    end.text.append(buffer, static_cast<size_t>(count));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    end.failure = "takes too long";
  else if (WIFSIGNALED(status))
    end.failure = str("ends by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  else if (WEXITSTATUS(status) != 0)
    end.failure = str("exits with ", WEXITSTATUS(status));
  return end;
}

}  // namespace tutti::fuzz
