// Random programs for the replicas, with skipped and extra operations, exceptions, and replicas that catch errors and
// go on. A model that knows no threads says how each operation of each replica must end; every schedule must end so.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/support/watchdog.h"
#include "tutti/collectives/rendezvous.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/workers.h"

namespace tutti {
namespace {

constexpr int kMaxReplicas = 8;
constexpr const char* kNames[] = {"all_reduce", "all_gather", "defective"};  // the action of the last one throws

struct Step {
  enum class Kind { operation, throw_own } kind = Kind::operation;
  size_t name = 0;
  uint64_t key = 0;
  int delay = 0;  // 0: none, 1: yield, else microseconds

  bool meets(const Step& other) const { return name == other.name && key == other.key; }
};

struct Program {
  std::vector<Step> steps;
  bool catches = false;  // goes on with the next step after an error
};

// How the operations of one replica ended, one letter each, then how the replica ended:
// m met, e error of the action, x mismatch, c cancelled; then '.' finished or '!' failed.
using Log = std::string;

struct Expected {
  std::vector<Log> logs;
  std::vector<int> first_failed;  // those of which one failed first
  bool common = false;            // it failed of an error that several got
};

class Model {
 public:
  explicit Model(const std::vector<Program>& programs)
      : programs_(programs), next_(programs.size()), failing_(programs.size()) {
    expected_.logs.resize(programs.size());
  }

  // One turn: every replica comes to its next operation, fails, or finishes.
  Expected run() {
    while (true) {
      std::vector<size_t> waiting;
      std::vector<int> failed;
      size_t num_done = 0;
      for (size_t r = 0; r < programs_.size(); ++r) {
        if (done(r)) {
          ++num_done;
        } else if (failing_[r] || throws(r)) {
          failed.push_back(static_cast<int>(r));
        } else if (next_[r] < programs_[r].steps.size()) {
          waiting.push_back(r);
        } else {
          expected_.logs[r] += '.';
        }
      }
      if (num_done == programs_.size()) return expected_;
      note_failures(failed);
      end_operations(waiting);
    }
  }

 private:
  bool done(size_t r) const { return expected_.logs[r].ends_with('.') || expected_.logs[r].ends_with('!'); }
  bool throws(size_t r) const {
    return next_[r] < programs_[r].steps.size() && programs_[r].steps[next_[r]].kind == Step::Kind::throw_own;
  }
  const Step& step(size_t r) const { return programs_[r].steps[next_[r]]; }

  void note_failures(const std::vector<int>& failed) {
    for (const int replica : failed) {
      const auto r = static_cast<size_t>(replica);
      expected_.logs[r] += '!';
      if (!any_failed_) expected_.common |= failing_[r];
    }
    if (!any_failed_) expected_.first_failed = failed;
    any_failed_ |= !failed.empty();
  }

  void end_operations(const std::vector<size_t>& waiting) {
    char how = 'm';
    if (any_failed_) {
      how = 'c';
    } else if (waiting.size() < programs_.size() ||
               !std::ranges::all_of(waiting, [&](size_t r) { return step(r).meets(step(waiting.front())); })) {
      how = 'x';
    } else if (kNames[step(waiting.front()).name] == kNames[2]) {
      how = 'e';
    }
    for (const size_t r : waiting) {
      expected_.logs[r] += how;
      ++next_[r];
      if (how != 'm' && !programs_[r].catches) failing_[r] = true;
    }
  }

  const std::vector<Program>& programs_;
  std::vector<size_t> next_;
  std::vector<bool> failing_;  // does not catch the error that it got
  Expected expected_;
  bool any_failed_ = false;
};

void pass_time(int delay) {
  if (delay == 1) std::this_thread::yield();
  if (delay > 1) std::this_thread::sleep_for(std::chrono::microseconds(delay));
}

char letter_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error.code() == ErrorCode::cancelled ? 'c' : error.code() == ErrorCode::failed_precondition ? 'x' : '?';
  } catch (const std::domain_error&) {
    return 'e';
  } catch (...) {
    return '?';
  }
}

// Runs one replica's program; returns its log without the end.
void run_program(Rendezvous& rendezvous, int replica, const Program& program, Log& log) {
  for (const Step& step : program.steps) {
    pass_time(step.delay);
    if (step.kind == Step::Kind::throw_own) throw std::runtime_error(str("replica ", replica));
    Step mine = step;
    try {
      rendezvous.arrive(replica, {.name = kNames[step.name], .key = step.key, .payload = &mine},
                        [&](std::span<void* const> payloads) {
                          for (void* payload : payloads) EXPECT_TRUE(static_cast<Step*>(payload)->meets(step));
                          if (step.name == 2) throw std::domain_error("defective");
                        });
      log += 'm';
    } catch (...) {
      log += letter_of(std::current_exception());
      if (!program.catches) throw;
    }
  }
}

std::vector<Program> random_programs(std::mt19937& random, int num_replicas) {
  const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
  std::vector<Step> common(random() % 6);
  for (Step& step : common) step = {.name = chance(8) ? 2U : random() % 2, .key = random() % 2};
  std::vector<Program> programs(static_cast<size_t>(num_replicas), Program{common});
  for (Program& program : programs) {
    program.catches = chance(25);
    std::vector<Step>& steps = program.steps;
    const auto somewhere = [&] { return steps.begin() + static_cast<long>(random() % (steps.size() + 1)); };
    if (chance(10) && !steps.empty()) steps.erase(steps.begin() + static_cast<long>(random() % steps.size()));
    if (chance(10)) steps.insert(somewhere(), Step{.name = random() % 2, .key = random() % 3});
    if (chance(10)) steps.insert(somewhere(), Step{.kind = Step::Kind::throw_own});
    for (Step& step : steps) step.delay = chance(60) ? 0 : chance(70) ? 1 : static_cast<int>(2 + random() % 60);
  }
  return programs;
}

// Of the form "… because replica 3 failed: …".
int replica_named_in(const std::string& text) {
  const std::string before = "because replica ";
  const size_t at = text.find(before);
  return at == std::string::npos ? -1 : std::stoi(text.substr(at + before.size()));
}

class Schedules : public testing::TestWithParam<int> {};

TEST_P(Schedules, EveryReplicaEndsAsTheModelSays) {
  const Watchdog watchdog(std::chrono::seconds(240));
  const int num_replicas = GetParam();
  std::mt19937 random(static_cast<unsigned>(num_replicas));
  Workers workers(num_replicas);
  Rendezvous rendezvous(num_replicas);
  int num_failed = 0;
  for (int schedule = 0; schedule < 1500; ++schedule) {
    SCOPED_TRACE(str("schedule ", schedule, " of ", num_replicas, " replicas"));
    const std::vector<Program> programs = random_programs(random, num_replicas);
    const Expected expected = Model(programs).run();
    std::vector<Log> logs(programs.size());
    std::vector<int> named(programs.size(), -1);  // the replica that a cancelled one says has failed
    rendezvous.reset();
    workers.run([&](int replica) {
      const auto r = static_cast<size_t>(replica);
      try {
        run_program(rendezvous, replica, programs[r], logs[r]);
        logs[r] += '.';
        rendezvous.finish(replica);
      } catch (const std::exception& error) {
        if (logs[r].ends_with('c')) named[r] = replica_named_in(error.what());
        logs[r] += '!';
        rendezvous.fail(replica, std::current_exception());
      }
    });
    ASSERT_EQ(logs, expected.logs);
    const Failure& failure = rendezvous.first_failure();
    ASSERT_EQ(failure.exception == nullptr, expected.first_failed.empty());
    if (!failure.exception) continue;
    ++num_failed;
    if (failure.replica == -1) {
      ASSERT_TRUE(expected.common);
    } else {
      ASSERT_EQ(std::ranges::count(expected.first_failed, failure.replica), 1);
    }
    for (const int other : named) ASSERT_TRUE(other == -1 || std::ranges::count(expected.first_failed, other) == 1);
  }
  EXPECT_GT(num_failed, 100);
  EXPECT_LT(num_failed, 1400);
}

INSTANTIATE_TEST_SUITE_P(Rendezvous, Schedules, testing::Range(1, kMaxReplicas + 1));

}  // namespace
}  // namespace tutti
