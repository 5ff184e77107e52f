// Saves that fail or are killed at every operation on the disk: no checkpoint that was saved is ever lost.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <random>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/hooked_file_system.h"
#include "tests/support/memory_file_system.h"
#include "tutti/checkpoint/folder.h"
#include "tutti/checkpoint/writer.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

// The process ended here. No Error: nothing handles it.
struct Killed : std::exception {
  const char* what() const noexcept override { return "killed"; }
};

enum class Fault { disk_full, disk_full_for_good, io_error, kill, power_cut };

// Stands in the way of the operation `at` and, if the fault stays, of all that follow.
class Injector {
 public:
  Injector(Fault fault, int at) : fault_(fault), at_(at) {}

  void operator()(FileOperation operation) {
    const int number = count_++;
    if (number < at_) return;
    if (is_kill()) throw Killed();
    if (number > at_ && fault_ != Fault::disk_full_for_good) return;
    if (fault_ == Fault::io_error) throw Error(ErrorCode::unavailable, "I/O error");
    using enum FileOperation;
    if (operation == read || operation == open || operation == list || operation == remove) return;
    throw Error(ErrorCode::resource_exhausted, "no space left on device");
  }

  bool is_kill() const { return fault_ == Fault::kill || fault_ == Fault::power_cut; }
  bool reached() const { return count_ > at_; }

 private:
  Fault fault_;
  int at_;
  int count_ = 0;
};

Contents random_contents(std::mt19937& random, int64_t step) {
  Contents contents{.values = {{"seed", static_cast<int64_t>(random())}}, .step = step};
  const int count = static_cast<int>(random() % 4);
  for (int i = 0; i < count; ++i)
    contents.tensors.push_back(named_tensor(str("w", i), at::rand({static_cast<int64_t>(random() % 9), 2})));
  return contents;
}

bool holds(const Reader& reader, const Contents& contents) {
  if (reader.step() != contents.step || reader.values() != contents.values ||
      reader.tensors().size() != contents.tensors.size())
    return false;
  for (const NamedTensor& tensor : contents.tensors)
    if (!reader.find(tensor.name) || !at::equal(reader.read(tensor.name), tensor.pieces[0].tensor)) return false;
  return true;
}

class Faults : public testing::Test {
 protected:
  // One save, with a fault at operation `at`. Returns whether the fault was met.
  bool save_once(Fault fault, int at, const Retention& retention, std::optional<int64_t> number) {
    const Contents contents = random_contents(random_, ++step_);
    attempts_.push_back(contents);
    Injector injector(fault, at);
    HookedFileSystem hooked(files_, [&](FileOperation operation) { injector(operation); });
    try {
      Folder(hooked, "/run", retention).save(contents, number);
      attempts_ = {contents};  // from now on this one, or a newer
    } catch (const Error&) {
    } catch (const Killed&) {
      if (fault == Fault::power_cut) files_.power_cut(random_);
    }
    return injector.reached();
  }

  void check(const std::string& where) {
    warnings_.clear();
    bool found = attempts_.size() == step_;  // nothing was saved yet: there may be nothing
    Folder(files_, "/run").restore_latest([&](const Reader& reader) {
      reader.verify();
      found = std::ranges::any_of(attempts_, [&](const Contents& contents) { return holds(reader, contents); });
    });
    ASSERT_TRUE(found) << where << ": lost what was saved";
    const Folder folder(files_, "/run");
    for (const int64_t number : folder.numbers())
      ASSERT_NO_THROW(Reader(files_, folder.path_of(number)).verify()) << where << ": half of " << number << " is left";
    ASSERT_THAT(warnings_.lines(), testing::IsEmpty()) << where << ": a checkpoint is damaged";
  }

  MemoryFileSystem files_;
  std::mt19937 random_{20240607};
  std::vector<Contents> attempts_;  // the last one that save() returned from, and those that were tried since
  size_t step_ = 0;
  CollectedWarnings warnings_;
};

TEST_F(Faults, TenThousandLoseNothingThatWasSaved) {
  std::map<Fault, int> injected;
  int total = 0;
  while (total < 10'000) {
    const auto fault = static_cast<Fault>(random_() % 5);
    const Retention retention{.max_to_keep = 1 + random_() % 3,
                              .keep_multiples_of = static_cast<int64_t>(random_() % 2 * 500)};
    const bool replace = random_() % 4 == 0;
    bool reached = true;
    for (int at = 0; reached; ++at) {
      std::optional<int64_t> number;
      if (replace)
        if (const auto numbers = Folder(files_, "/run").numbers(); !numbers.empty()) number = numbers.back();
      reached = save_once(fault, at, retention, number);
      injected[fault] += reached;
      total += reached;
      check(str("fault ", static_cast<int>(fault), " at operation ", at, " of save ", step_));
      if (HasFatalFailure()) return;
    }
  }
  for (const Fault fault :
       {Fault::disk_full, Fault::disk_full_for_good, Fault::io_error, Fault::kill, Fault::power_cut})
    EXPECT_GT(injected[fault], 500) << static_cast<int>(fault);
  RecordProperty("faults", total);
}

TEST_F(Faults, LeaveNothingBehindAfterTheNextSave) {
  for (const Fault fault : {Fault::disk_full, Fault::io_error, Fault::kill, Fault::power_cut}) {
    bool reached = true;
    for (int at = 0; reached; ++at) {
      reached = save_once(fault, at, {.max_to_keep = 2}, {});
      Folder(files_, "/run", {.max_to_keep = 2}).save(attempts_.back());
      const auto left = files_.list("/run");
      EXPECT_LE(left.size(), 3) << "two checkpoints and their list";
      EXPECT_TRUE(std::ranges::none_of(left, is_temporary, &DirectoryEntry::name));
    }
  }
}

TEST_F(Faults, OfPowerAfterASaveTakeNothingFromIt) {
  for (int64_t step = 1; step <= 200; ++step) {
    const Contents contents = random_contents(random_, step);
    const fs::path path = str("/ckpt-", random_() % 3);
    write(files_, path, contents);
    files_.power_cut(random_);
    ASSERT_TRUE(holds(Reader(files_, path), contents)) << "save " << step;
  }
}

// The same on a disk, with processes that are really killed.
TEST(Kills, AtEveryOperationLoseNothingThatWasSaved) {
  const fs::path directory = fs::path(testing::TempDir()) / str("tutti_kills_", getpid());
  fs::remove_all(directory);
  const auto contents_of = [](int64_t step) {
    Contents contents{.step = step};
    contents.tensors.push_back(named_tensor("w", at::full({100}, step)));
    return contents;
  };
  bool killed = true;
  int64_t saved = 0;
  for (int at = 0; killed; ++at) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int count = 0;
      HookedFileSystem hooked(posix_file_system(), [&](FileOperation) {
        if (count++ == at) kill(getpid(), SIGKILL);
      });
      Folder(hooked, directory, {.max_to_keep = 2}).save(contents_of(saved + 1));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    killed = WIFSIGNALED(status);
    ASSERT_TRUE(killed ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    int64_t restored = 0;
    Folder(posix_file_system(), directory).restore_latest([&](const Reader& reader) {
      EXPECT_TRUE(at::equal(reader.read("w"), at::full({100}, reader.step())));
      restored = reader.step();
    });
    EXPECT_GE(restored, saved);
    EXPECT_LE(restored, saved + 1);
    saved = restored;
    if (!killed) {
      EXPECT_GT(at, 15);
    }
  }
  EXPECT_GT(saved, 2);
  fs::remove_all(directory);
}

}  // namespace
}  // namespace tutti::checkpoint
