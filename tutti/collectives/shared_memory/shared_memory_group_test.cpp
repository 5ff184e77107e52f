#include "tutti/collectives/shared_memory/shared_memory_group.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/shared_array.h"
#include "tutti/collectives/shared_memory/call_record.h"
#include "tutti/collectives/shared_memory/meeting_place.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using SteadyClock = std::chrono::steady_clock;

// What a member left when its loop had ended.
struct MemberReport {
  std::atomic<int> num_calls;  // that it finished
  SteadyClock::rep ended_at;
  std::array<char, 2000> error;
};

// Processes that join a group and then sum without end, until one of them is harmed.
class SummingProcesses {
 public:
  explicit SummingProcesses(int size, std::chrono::milliseconds timeout = 60s, int64_t count = 1000,
                            BufferPlace place = BufferPlace::host)
      : memory_(create_group_memory(size)), reports_(static_cast<size_t>(size)) {
    std::fflush(nullptr);
    for (int rank = 0; rank < size; ++rank) {
      pids_.push_back(fork());
      if (pids_.back() == 0) run_member(rank, timeout, count, place);
    }
    while (report(size - 1).num_calls < 10) std::this_thread::sleep_for(1ms);
  }
  ~SummingProcesses() { end_all(); }

  pid_t pid(int rank) const { return pids_[static_cast<size_t>(rank)]; }
  MemberReport& report(int rank) const { return reports_[static_cast<size_t>(rank)]; }
  void send(int rank, int signal) {
    sent_at_ = SteadyClock::now().time_since_epoch().count();
    kill(pid(rank), signal);
  }
  // Waits until a survivor has ended of its own accord; how long after the signal that was.
  std::chrono::milliseconds ended_after(int rank) {
    int status = 0;
    EXPECT_EQ(waitpid(pid(rank), &status, 0), pid(rank));
    EXPECT_EQ(status, 0) << "of rank " << rank;
    waited_.insert(rank);
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        SteadyClock::duration(report(rank).ended_at - sent_at_));
  }
  void end_all() {
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
      if (!waited_.insert(rank).second) continue;
      kill(pid(rank), SIGKILL);
      waitpid(pid(rank), nullptr, 0);
    }
  }

 private:
  [[noreturn]] void run_member(int rank, std::chrono::milliseconds timeout, int64_t count, BufferPlace place) {
    alarm(60);  // a hang ends as a signal
    MemberReport& own = report(rank);
    const std::string error = error_of([&] {
      const auto group = shared_memory_group(memory_.number(), rank, {.timeout = timeout});
      std::vector<float> values(static_cast<size_t>(count), 1.0F);
      const auto shared = group->allocate_shared(values.size() * sizeof(float));
      void* const data = place == BufferPlace::shared ? static_cast<void*>(shared.get()) : values.data();
      for (;; ++own.num_calls)
        group->run({.kind = CollectiveKind::all_reduce,
                    .count = count,
                    .input = data,
                    .output = data,
                    .place = place,
                    .name = "gradients"});
    });
    error.copy(own.error.data(), own.error.size() - 1);
    own.ended_at = SteadyClock::now().time_since_epoch().count();
    _exit(0);
  }

  FileDescriptor memory_;
  SharedArray<MemberReport> reports_;
  std::vector<pid_t> pids_;
  std::set<int> waited_;
  SteadyClock::rep sent_at_ = 0;
};

TEST(SharedMemoryGroup, NamesAKilledMemberWithinASecond) {
  SummingProcesses members(3);
  members.send(1, SIGKILL);
  for (const int survivor : {0, 2}) {
    EXPECT_LT(members.ended_after(survivor), 1s);
    EXPECT_THAT(members.report(survivor).error.data(),
                AllOf(HasSubstr("unavailable: rank 1"), HasSubstr(str("process ", members.pid(1))),
                      HasSubstr("all_reduce of 1000 float32 'gradients' at shared_memory_group_test.cpp:")));
  }
}

TEST(SharedMemoryGroup, KnowsOfAKilledMemberWhileNoCallIsMade) {
  const FileDescriptor memory = create_group_memory(2);
  const pid_t other = fork();
  if (other == 0) {
    alarm(60);  // a hang ends as a signal
    const auto group = shared_memory_group(memory.number(), 1);
    group->run({});
    pause();
  }
  const auto group = shared_memory_group(memory.number(), 0);
  group->run({});
  const Collective call{.name = "gradients"};
  EXPECT_FALSE(group->obstacle_to(call)) << "while it sleeps";
  kill(other, SIGKILL);
  std::optional<Error> obstacle;
  for (const auto begin = SteadyClock::now(); !obstacle && SteadyClock::now() - begin < 10s;)
    obstacle = group->obstacle_to(call);
  ASSERT_TRUE(obstacle);
  EXPECT_EQ(obstacle->code(), ErrorCode::unavailable);
  EXPECT_THAT(obstacle->what(), AllOf(HasSubstr(str("rank 1 (process ", other, ") has ended without a word")),
                                      HasSubstr("barrier 'gradients'")));
  waitpid(other, nullptr, 0);
}

TEST(SharedMemoryGroup, NamesAStoppedMemberAtTheDeadline) {
  SummingProcesses members(3, 300ms);
  members.send(2, SIGSTOP);
  for (const int survivor : {0, 1}) {
    const auto after = members.ended_after(survivor);
    EXPECT_GE(after, 250ms);
    EXPECT_LT(after, 1300ms);
    EXPECT_THAT(members.report(survivor).error.data(),
                AllOf(HasSubstr("deadline_exceeded"), HasSubstr("300 ms"), HasSubstr("rank 2 has not come")));
  }
}

// A call is finished by all who live, or by none: a sum that one survivor has and another has not would be a divergence
// that nobody sees. Half of the sums take several rounds, or are long ones of shared buffers.
TEST(SharedMemoryGroup, SurvivorsHaveFinishedTheSameCalls) {
  std::mt19937 random(1);
  for (int schedule = 0; schedule < 60; ++schedule) {
    SummingProcesses members(3, 60s, schedule % 2 == 0 ? 100 : 700'000,
                             schedule % 4 < 2 ? BufferPlace::host : BufferPlace::shared);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    const int victim = static_cast<int>(random() % 3);
    members.send(victim, SIGKILL);
    const int one = (victim + 1) % 3, other = (victim + 2) % 3;
    EXPECT_LT(members.ended_after(one), 2s);
    EXPECT_LT(members.ended_after(other), 2s);
    EXPECT_EQ(members.report(one).num_calls, members.report(other).num_calls);
    EXPECT_STREQ(members.report(one).error.data(), members.report(other).error.data());
  }
}

size_t num_files_of_shared_memory() {
  const std::filesystem::directory_iterator files("/dev/shm");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(SharedMemoryGroup, LeavesNothingBehindWhenAllAreKilled) {
  const size_t before = num_files_of_shared_memory();
  SummingProcesses members(2);
  EXPECT_EQ(num_files_of_shared_memory(), before);  // it never had a name
  members.end_all();
  EXPECT_EQ(num_files_of_shared_memory(), before);
}

TEST(SharedMemoryGroup, RefusesARankThatIsTakenOrNotThere) {
  const FileDescriptor memory = create_group_memory(2);
  const auto first = shared_memory_group(memory.number(), 0);
  EXPECT_THAT(error_of([&] { shared_memory_group(memory.number(), 0); }),
              AllOf(HasSubstr("already_exists"), HasSubstr(str("process ", getpid(), " is rank 0 of 2 already"))));
  for (const int rank : {-1, 2, 1 << 30})
    EXPECT_THAT(error_of([&] { shared_memory_group(memory.number(), rank); }), HasSubstr("a group of 2 has no rank"));
  for (const int size : {-1, 0, 65, 1 << 30})
    EXPECT_THAT(error_of([&] { create_group_memory(size); }), HasSubstr("1 to 64 members"));
}

TEST(SharedMemoryGroup, NamesAMemberThatHasNotJoined) {
  const FileDescriptor memory = create_group_memory(2);
  const auto group = shared_memory_group(memory.number(), 0, {.timeout = 30ms});
  EXPECT_THAT(error_of([&] { group->run({}); }), HasSubstr("rank 1 has not joined the group"));
}

// A descriptor comes out of the environment.
TEST(SharedMemoryGroup, RefusesDescriptorsOfAnythingElse) {
  const auto refusal = [](int descriptor) { return error_of([&] { shared_memory_group(descriptor, 0); }); };
  EXPECT_THAT(refusal(-1), HasSubstr("invalid_argument: file descriptor -1"));
  const FileDescriptor file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(refusal(file.number()), HasSubstr("no sealed memory"));
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const FileDescriptor reading(pipe[0]), writing(pipe[1]);
  EXPECT_THAT(refusal(pipe[0]), HasSubstr("invalid_argument"));

  // Bytes as create_group_memory writes them, with another head, size or seal.
  uint64_t head[3];
  const FileDescriptor good = create_group_memory(2);
  ASSERT_EQ(pread(good.number(), head, sizeof head, 0), static_cast<ssize_t>(sizeof head));
  const off_t good_size = lseek(good.number(), 0, SEEK_END);
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const auto forged = [&](uint64_t magic, uint64_t members, off_t size, int seals, uint64_t more_room = 0) {
    const FileDescriptor memory(memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const uint64_t bytes[3] = {magic, members, head[2] + more_room};
    EXPECT_EQ(ftruncate(memory.number(), size), 0);
    EXPECT_EQ(pwrite(memory.number(), bytes, sizeof bytes, 0), static_cast<ssize_t>(sizeof bytes));
    EXPECT_EQ(fcntl(memory.number(), F_ADD_SEALS, seals), 0);
    return refusal(memory.number());
  };
  EXPECT_EQ(forged(head[0], 2, good_size, kSeals), "no error");
  EXPECT_THAT(forged(head[0], 2, good_size, F_SEAL_GROW), HasSubstr("no sealed memory"));
  EXPECT_THAT(forged(head[0] + 1, 2, good_size, kSeals), HasSubstr("does not begin"));
  for (const uint64_t members :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, uint64_t{65}, uint64_t{1} << 32 | 2, ~uint64_t{0}})
    EXPECT_THAT(forged(head[0], members, good_size, kSeals), HasSubstr("claims")) << members;
  EXPECT_THAT(forged(head[0], 2, good_size - 1, kSeals), HasSubstr("claims 2 members"));
  EXPECT_THAT(forged(head[0], 2, 24, kSeals), HasSubstr("claims 2 members"));
  EXPECT_THAT(forged(head[0], 2, good_size, kSeals, 4096), HasSubstr("claims 2 members"));
  EXPECT_THAT(forged(head[0], 2, good_size + 4096, kSeals, 4096), HasSubstr("claims 2 members"));
}

Collective sum_in(const std::shared_ptr<std::byte>& buffer, int64_t count) {
  return {.kind = CollectiveKind::all_reduce,
          .count = count,
          .input = buffer.get(),
          .output = buffer.get(),
          .place = BufferPlace::shared,
          .name = "gradients"};
}

// Two members, threads of this process.
struct TwoThreads {
  // What each threw.
  std::array<std::string, 2> run(const std::function<void(Group&)>& f) {
    std::array<std::string, 2> errors;
    std::thread other([&] { errors[1] = error_of([&] { f(*groups[1]); }); });
    errors[0] = error_of([&] { f(*groups[0]); });
    other.join();
    return errors;
  }

  FileDescriptor memory = create_group_memory(2);
  std::unique_ptr<Group> groups[2] = {shared_memory_group(memory.number(), 0), shared_memory_group(memory.number(), 1)};
};

TEST(SharedBuffers, AreAllThatIsSummedInSharedMemory) {
  TwoThreads two;
  Group& group = *two.groups[0];
  const auto buffer = group.allocate_shared(4096), foreign = two.groups[1]->allocate_shared(4096);
  const auto refusal = [&](Collective call) { return error_of([&] { group.run(call); }); };
  const auto is_refused = AllOf(HasSubstr("invalid_argument"), HasSubstr(", in shared memory: what is done there"));
  EXPECT_THAT(refusal(sum_in(foreign, 1)), is_refused);
  EXPECT_THAT(refusal(sum_in(foreign, 0)), is_refused);
  EXPECT_THAT(refusal(sum_in(buffer, 1025)), is_refused);
  Collective other = sum_in(buffer, 1);
  other.kind = CollectiveKind::broadcast;
  EXPECT_THAT(refusal(other), is_refused);
  other = sum_in(buffer, 1);
  other.output = buffer.get() + 64;
  EXPECT_THAT(refusal(other), is_refused);
  other.input = other.output;
  EXPECT_THAT(refusal(other), is_refused);
  const auto dropped = std::shared_ptr<std::byte>(std::shared_ptr<void>(), group.allocate_shared(4096).get());
  EXPECT_THAT(refusal(sum_in(dropped, 1)), is_refused);
  for (const std::string& error :
       two.run([&](Group& member) { member.run(sum_in(&member == &group ? buffer : foreign, 1024)); }))
    EXPECT_EQ(error, "no error");
}

TEST(SharedBuffers, AreSummedByAllMembersOrByNone) {
  TwoThreads two;
  const auto errors = two.run([&](Group& group) {
    const auto buffer = group.allocate_shared(4096);
    Collective call = sum_in(buffer, 1024);
    std::vector<float> own(1024);
    if (group.rank() == 1) {
      call.place = BufferPlace::host;
      call.input = call.output = own.data();
    }
    group.run(call);
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("failed_precondition"), HasSubstr(", in shared memory, rank 1 makes")));
}

TEST(SharedBuffers, AreUsedAgainAndGiveTheirPagesBack) {
  TwoThreads two;
  Group& group = *two.groups[0];
  const auto pages = [&] {
    struct stat status {};
    EXPECT_EQ(fstat(two.memory.number(), &status), 0);
    return status.st_blocks * 512 / 4096;
  };
  const auto filled = [&](size_t bytes) {
    auto buffer = group.allocate_shared(bytes);
    std::memset(buffer.get(), 1, bytes);
    return buffer;
  };
  EXPECT_THAT(error_of([&] { group.allocate_shared(~size_t{0}); }), HasSubstr("resource_exhausted"));
  EXPECT_THAT(error_of([&] { group.allocate_shared(size_t{1} << 57); }), HasSubstr("resource_exhausted"));
  const std::byte* const first = filled(1 << 20).get();
  EXPECT_EQ(filled((1 << 20) - 5).get(), first);
  const auto before = pages();
  for (size_t bytes = 2 << 20; bytes < 4 << 20; bytes += 4096) filled(bytes);
  EXPECT_LT(pages(), before + 4 * (4 << 20) / 4096);
  filled(1);
  EXPECT_EQ(std::to_integer<int>(*group.allocate_shared(5 << 20)), 0);
}

// Buffers that were summed in once are not asked for again: what others mapped of them is forgotten in time.
TEST(SharedBuffers, MayBeMoreThanAProcessMaps) {
  TwoThreads two;
  const auto errors = two.run([](Group& group) {
    std::vector<std::shared_ptr<std::byte>> kept;
    for (int i = 0; i < 5000; ++i) {
      kept.push_back(group.allocate_shared(4096));
      auto* const value = reinterpret_cast<float*>(kept.back().get());
      *value = static_cast<float>(i + group.rank());
      group.run(sum_in(kept.back(), 1));
      EXPECT_EQ(*value, static_cast<float>(2 * i + 1));
      if (i % 500 > 0) continue;
      group.run(sum_in(kept[0], 1));
      EXPECT_EQ(*reinterpret_cast<float*>(kept[0].get()), std::ldexp(1.0F, i / 500 + 1));
    }
  });
  EXPECT_EQ(errors[0], "no error");
  EXPECT_EQ(errors[1], "no error");
}

TEST(SharedBuffers, OutliveTheirGroup) {
  auto two = std::make_unique<TwoThreads>();
  const auto buffer = two->groups[0]->allocate_shared(8192);
  two->run([&](Group& group) { group.run(sum_in(group.rank() == 0 ? buffer : group.allocate_shared(8192), 2048)); });
  two.reset();
  std::memset(buffer.get(), 7, 8192);
  EXPECT_EQ(std::to_integer<int>(buffer.get()[8191]), 7);
}

TEST(SharedBuffers, AreNotWhereAnotherMemberOnlySaysSo) {
  for (const uint64_t place :
       {uint64_t{0}, uint64_t{4096}, uint64_t{1} << 57, uint64_t{1} << 63, ~uint64_t{4095}, (uint64_t{1} << 50) + 64}) {
    const FileDescriptor memory = create_group_memory(2);
    const auto group = shared_memory_group(memory.number(), 0, {.timeout = 10s});
    GroupMemory seen(memory.number());
    seen.member(1).pid = getpid();
    constexpr int kBoth[] = {0, 1};
    MeetingPlace liar(seen, 1, 10s);
    std::thread other([&] { error_of([&] { liar.meet({seen.all(), kBoth, 1}, sum_in(nullptr, 1000), 1, place); }); });
    EXPECT_THAT(error_of([&] { group->run(sum_in(group->allocate_shared(4096), 1000)); }),
                AllOf(HasSubstr("data_loss: rank 0, at all_reduce of 1000"), HasSubstr("where no buffer is")));
    other.join();
  }
}

// Where files may only be small, values are copied to travel.
TEST(SharedBuffers, AreNotThereWhereFilesMustBeSmall) {
  const pid_t process = fork();
  if (process == 0) {
    alarm(60);
    const rlimit small{.rlim_cur = 1 << 30, .rlim_max = RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &small);
    TwoThreads two;
    const auto errors = two.run([](Group& group) {
      int64_t number = group.rank() + 1;
      group.run(
          {.kind = CollectiveKind::all_reduce, .dtype = Dtype::int64, .count = 1, .input = &number, .output = &number});
      if (number != 3 || group.allocate_shared(4096)) throw std::runtime_error("");
    });
    _exit(errors[0] == "no error" && errors[1] == "no error" ? 0 : 1);
  }
  int status = 0;
  waitpid(process, &status, 0);
  EXPECT_EQ(status, 0);
}

// What other members write is not believed: texts without an end, enumerators that are none.
TEST(SharedMemoryGroup, ReadsGarbageOfOthersWithinItsBounds) {
  const FileDescriptor memory = create_group_memory(2);
  const GroupMemory seen(memory.number());
  const auto group = shared_memory_group(memory.number(), 0, {.timeout = 30ms});
  std::memset(&seen.all().sides[1].calls, 0xff, sizeof seen.all().sides[1].calls);
  seen.all().sides[1].round = ~uint64_t{0};
  seen.member(1).pid = 1;
  EXPECT_THAT(error_of([&] { group->run({}); }),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("rank 1 waits at unknown")));
  std::memset(seen.failure().text, 'x', sizeof seen.failure().text);
  seen.failure().code = 999;
  const std::string error = error_of([&] { group->run({}); });
  EXPECT_EQ(error, "internal: " + std::string(sizeof seen.failure().text, 'x'));
}

TEST(SharedMemoryGroup, CutsLongNamesInMessagesAndStillComparesThem) {
  const std::string name(500, 'n');
  CallRecord one, other;
  write_record(one, {.name = name.c_str()});
  EXPECT_THAT(to_string(one), HasSubstr("barrier '" + std::string(63, 'n') + "' at shared_memory_group_test.cpp:"));
  write_record(other, {.name = (name + 'x').c_str()});
  EXPECT_FALSE(agree(one, other));
}

}  // namespace
}  // namespace tutti
