// Checkpoints that several processes write: processes are forked, and are killed or fail at every operation on the
// disk.
#include "tutti/checkpoint/shared_write.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/error_of.h"
#include "tests/support/hooked_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/reader.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

constexpr int kProcesses = 3;
constexpr int64_t kTensors = 7;

Contents contents_of_step(int64_t step) {
  Contents contents{.values = {{"step", step}}, .step = step};
  for (int64_t i = 0; i < kTensors; ++i)
    contents.tensors.push_back(named_tensor(str("t", i), at::full({8 + i}, static_cast<double>(10 * step + i))));
  return contents;
}

// The step of a whole checkpoint; every byte is read.
int64_t read_step(const fs::path& folder) {
  const Reader reader(posix_file_system(), folder);
  const int64_t step = std::get<int64_t>(reader.values().at("step"));
  EXPECT_EQ(reader.tensors().size(), kTensors);
  for (int64_t i = 0; i < kTensors; ++i)
    EXPECT_TRUE(at::equal(reader.read(str("t", i)), at::full({8 + i}, static_cast<double>(10 * step + i))));
  return step;
}

enum class WriteFault { kill, full };

// What each process is told where `victim` is killed or has no room at its operation `at`, and whether it came to it.
struct Ends {
  std::vector<std::string> texts;
  bool reached;
};

Ends save_by_processes(const fs::path& folder, int64_t step, WriteFault fault, int victim, int at) {
  const FileDescriptor memory = create_group_memory(kProcesses);
  int pipes[kProcesses][2];
  std::vector<pid_t> children;
  for (int rank = 0; rank < kProcesses; ++rank) {
    EXPECT_EQ(pipe(pipes[rank]), 0);
    children.push_back(fork());
    if (children.back() != 0) {
      close(pipes[rank][1]);
      continue;
    }
    alarm(30);
    int count = 0;
    HookedFileSystem files(posix_file_system(), [&](FileOperation operation) {
      if (rank != victim || count++ < at) return;
      (void)!::write(pipes[rank][1], "!", count == at + 1 ? 1 : 0);
      if (fault == WriteFault::kill) kill(getpid(), SIGKILL);
      if (operation != FileOperation::remove && operation != FileOperation::list)
        throw Error(ErrorCode::resource_exhausted, "no space left on device");
    });
    const std::string text = error_of([&] {
      Processes processes(shared_memory_group(memory.number(), rank), nullptr);
      const Contents contents = contents_of_step(step);
      save_together(processes, files, contents, [&](const WriteOptions& options) {
        checkpoint::write(files, folder, contents, options);
        return std::string();
      });
    });
    (void)!::write(pipes[rank][1], text.data(), text.size());
    _exit(0);
  }
  Ends ends{.texts = {}, .reached = false};
  for (int rank = 0; rank < kProcesses; ++rank) {
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = ::read(pipes[rank][0], bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(n));
    close(pipes[rank][0]);
    waitpid(children[static_cast<size_t>(rank)], nullptr, 0);
    if (text.starts_with('!')) {
      ends.reached = true;
      text.erase(0, 1);
    }
    ends.texts.push_back(text);
  }
  return ends;
}

size_t num_entries(const fs::path& directory) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
}

TEST(SharedWrite, HasAFileOfEachProcess) {
  const TemporaryFolder directory;
  const fs::path folder = directory / "c";
  const Ends ends = save_by_processes(folder, 1, WriteFault::kill, -1, 0);
  EXPECT_THAT(ends.texts, Each("no error"));
  EXPECT_EQ(read_step(folder), 1);
  EXPECT_EQ(num_entries(folder), kProcesses + 1);  // and the index
  EXPECT_EQ(num_entries(directory.path()), 1);
}

TEST(SharedWrite, LeavesOneOfTwoStepsWhereverAProcessIsKilled) {
  for (int victim = 0; victim < kProcesses; ++victim)
    for (int at = 0;; ++at) {
      const TemporaryFolder directory;
      const fs::path folder = directory / "c";
      save_by_processes(folder, 1, WriteFault::kill, -1, 0);
      const Ends ends = save_by_processes(folder, 2, WriteFault::kill, victim, at);
      if (!ends.reached) {
        EXPECT_EQ(read_step(folder), 2);
        EXPECT_GT(at, 3);
        break;
      }
      for (int rank = 0; rank < kProcesses; ++rank)
        if (rank != victim) {
          EXPECT_THAT(ends.texts[static_cast<size_t>(rank)], HasSubstr("unavailable")) << at;
        }
      const int64_t step = read_step(folder);
      if (victim != 0) {
        EXPECT_EQ(step, 1) << at;
      }
      EXPECT_THAT(step, AnyOf(1, 2));
      save_by_processes(folder, 3, WriteFault::kill, -1, 0);
      EXPECT_EQ(read_step(folder), 3);
      EXPECT_EQ(num_entries(directory.path()), 1) << "what the killed one left is removed";
    }
}

TEST(SharedWrite, IsAbortedForAllWhereOneHasNoRoom) {
  for (int victim = 0; victim < kProcesses; ++victim)
    for (int at = 0;; ++at) {
      const TemporaryFolder directory;
      const fs::path folder = directory / "c";
      save_by_processes(folder, 1, WriteFault::kill, -1, 0);
      const Ends ends = save_by_processes(folder, 2, WriteFault::full, victim, at);
      if (!ends.reached) break;
      const bool has_failed = ends.texts[static_cast<size_t>(victim)] != "no error";
      for (const std::string& text : ends.texts) {
        EXPECT_EQ(text != "no error", has_failed) << at;
        if (has_failed) {
          EXPECT_THAT(text, AllOf(HasSubstr("resource_exhausted"), HasSubstr("no space left"))) << at;
        }
      }
      EXPECT_THAT(read_step(folder), AnyOf(1, 2));
      if (victim != 0) {
        EXPECT_EQ(read_step(folder), has_failed ? 1 : 2) << at;
      }
      if (victim != 0) {
        EXPECT_EQ(num_entries(directory.path()), 1) << at;
      }
    }
}

TEST(SharedWrite, RefusesOtherObjectsThanTheChiefs) {
  const TemporaryFolder directory;
  const FileDescriptor memory = create_group_memory(2);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const auto save = [&](int rank) {
    return error_of([&] {
      Processes processes(shared_memory_group(memory.number(), rank), nullptr);
      Contents contents = contents_of_step(1);
      if (rank == 1) contents.tensors.pop_back();
      save_together(processes, posix_file_system(), contents, [&](const WriteOptions& options) {
        checkpoint::write(posix_file_system(), directory / "c", contents, options);
        return std::string();
      });
    });
  };
  const pid_t child = fork();
  if (child == 0) {
    const std::string text = save(1);
    (void)!::write(pipes[1], text.data(), text.size());
    _exit(0);
  }
  EXPECT_THAT(save(0), HasSubstr("process 1 has other objects to save than the chief"));
  char bytes[1000] = {};
  EXPECT_GT(::read(pipes[0], bytes, sizeof bytes - 1), 0);
  EXPECT_THAT(bytes, HasSubstr("other objects to save"));
  waitpid(child, nullptr, 0);
  for (const int end : pipes) close(end);
  EXPECT_EQ(num_entries(directory.path()), 0);
}

}  // namespace
}  // namespace tutti::checkpoint
