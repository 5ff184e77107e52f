// Random programs on the replicas of a strategy: collectives that are left out, unequal numbers of merge_calls,
// exceptions of a replica and of a merge_call, errors that are caught, swallowed, or replaced. A model that knows no
// threads says what run may throw; what the replicas computed is compared, and the strategy must stay usable.
// It is also what to run under ThreadSanitizer.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <stdexcept>

#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/collectives/failure.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

enum class Action { backward, merge, all_reduce, build, merge_that_throws, throw_own };
enum class OnError { propagate, swallow, replace };  // of an error that a collective throws

struct Program {
  std::vector<Action> actions;
  OnError on_error = OnError::propagate;
};

// What ended a run: "own 2" (what replica 2 threw), "replaced 2", "merge", "mismatch"; "" where nothing did.
using Outcome = std::string;

std::set<Outcome> after_error(const std::vector<Program>& programs, const std::vector<size_t>& waiting,
                              const Outcome& error) {
  std::set<Outcome> outcomes;
  for (const size_t r : waiting) {
    if (programs[r].on_error == OnError::propagate) outcomes.insert(error);
    if (programs[r].on_error == OnError::replace) outcomes.insert(str("replaced ", r));
  }
  return outcomes.empty() ? std::set<Outcome>{""} : outcomes;
}

// What may end a run of the programs: several outcomes where replicas fail at once.
std::set<Outcome> possible_outcomes(const std::vector<Program>& programs) {
  std::vector<size_t> next(programs.size(), 0);
  while (true) {
    std::vector<size_t> waiting;
    std::set<Outcome> thrown;
    for (size_t r = 0; r < programs.size(); ++r) {
      const auto& actions = programs[r].actions;
      while (next[r] < actions.size() && actions[next[r]] == Action::backward) ++next[r];
      if (next[r] == actions.size()) continue;
      if (actions[next[r]] == Action::throw_own)
        thrown.insert(str("own ", r));
      else
        waiting.push_back(r);
    }
    if (!thrown.empty()) return thrown;
    if (waiting.empty()) return {""};
    const auto action = [&](size_t r) { return programs[r].actions[next[r]]; };
    const bool meet = waiting.size() == programs.size() &&
                      std::ranges::all_of(waiting, [&](size_t r) { return action(r) == action(0); });
    if (!meet) return after_error(programs, waiting, "mismatch");
    if (action(0) == Action::merge_that_throws) return after_error(programs, waiting, "merge");
    for (size_t& position : next) ++position;
  }
}

Outcome outcome_of(const std::function<void()>& run) {
  try {
    run();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::failed_precondition) << error.what();
    EXPECT_EQ(replica_of(std::current_exception()), -1);
    return "mismatch";
  } catch (const std::domain_error& error) {
    EXPECT_EQ(replica_of(std::current_exception()), -1);
    return error.what();
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.substr(text.find(' ') + 1), str(replica_of(std::current_exception())));
    return text;
  }
}

class Schedules : public testing::TestWithParam<int> {
 protected:
  void perform(Action action) {
    const ReplicaContext context = get_replica_context();
    const int64_t size = context.num_replicas_in_sync();
    const int replica = context.replica_id_in_sync_group();
    switch (action) {
      case Action::backward:
        (weight * (replica + 1)).sum().backward();
        ++num_backward[static_cast<size_t>(replica)];
        break;
      case Action::merge:
        EXPECT_EQ(context.merge_call(
                      [](Strategy&, const PerReplica<int>& ids) { return ids[0] + 10 * static_cast<int>(ids.size()); },
                      replica),
                  10 * size);
        break;
      case Action::all_reduce: {
        const Tensor sum = context.all_reduce(ReduceOp::sum, at::full({2}, static_cast<float>(replica + 1)));
        EXPECT_EQ(sum.add_(1).sum().item<int64_t>(), size * (size + 1) + 2);  // the sum is this replica's own
        break;
      }
      case Action::build: EXPECT_EQ(strategy.build([] { return at::ones({2}); }).sum().item<int64_t>(), 2); break;
      case Action::merge_that_throws: context.merge_call([](Strategy&) { throw std::domain_error("merge"); }); break;
      case Action::throw_own: throw std::runtime_error(str("own ", replica));
    }
  }

  void perform(const Program& program) {
    try {
      for (const Action action : program.actions) perform(action);
    } catch (const std::exception& error) {
      const bool own = std::string(error.what()).starts_with("own ");
      if (own || program.on_error == OnError::propagate) throw;
      if (program.on_error == OnError::replace)
        throw std::runtime_error(str("replaced ", get_replica_context().replica_id_in_sync_group()));
    }
  }

  // The gradients of all that the replicas computed, whatever ended the run.
  void expect_gradients() {
    int64_t expected = 0;
    for (size_t r = 0; r < num_backward.size(); ++r) expected += std::exchange(num_backward[r], 0) * int64_t(r + 1);
    const Tensor gradient = weight.grad();
    ASSERT_EQ(gradient.defined(), expected > 0);
    if (expected > 0) {
      EXPECT_EQ(gather(gradient).sum().item<int64_t>(), 3 * expected);
    }
    weight.mutable_grad().reset();
  }

  const Watchdog watchdog{std::chrono::seconds(280)};
  MirroredStrategy strategy{{.devices = test_devices(GetParam())}};
  const Tensor weight = strategy.build([] { return at::ones({3}).set_requires_grad(true); });
  std::vector<int> num_backward = std::vector<int>(static_cast<size_t>(GetParam()), 0);
};

std::vector<Program> random_programs(std::mt19937& random, int num_replicas) {
  const auto chance = [&](int percent) { return static_cast<int>(random() % 100) < percent; };
  std::vector<Action> common(random() % 7);
  for (Action& action : common) action = chance(5) ? Action::merge_that_throws : static_cast<Action>(random() % 4);
  std::vector<Program> programs(static_cast<size_t>(num_replicas), Program{common});
  for (auto& [actions, on_error] : programs) {
    on_error = chance(70) ? OnError::propagate : chance(50) ? OnError::swallow : OnError::replace;
    const auto somewhere = [&, &actions = actions] {
      return actions.begin() + static_cast<long>(random() % (actions.size() + 1));
    };
    if (chance(8) && !actions.empty()) actions.erase(actions.begin() + static_cast<long>(random() % actions.size()));
    if (chance(8)) actions.insert(somewhere(), static_cast<Action>(random() % 4));
    if (chance(8)) actions.insert(somewhere(), Action::throw_own);
  }
  return programs;
}

TEST_P(Schedules, EndAsTheModelSaysAndLeaveTheStrategyUsable) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  int num_failed = 0;
  for (int schedule = 0; schedule < 250; ++schedule) {
    SCOPED_TRACE(str("schedule ", schedule));
    const auto programs = random_programs(random, GetParam());
    const auto possible = possible_outcomes(programs);
    const Outcome outcome = outcome_of(
        [&] { strategy.run([&](const Program& program) { perform(program); }, PerReplica<Program>(programs)); });
    EXPECT_TRUE(possible.contains(outcome)) << '"' << outcome << "\" is none of " << str_list(possible);
    expect_gradients();
    const auto ids = strategy.run([] { return get_replica_context().replica_id_in_sync_group(); });
    for (size_t r = 0; r < ids.size(); ++r) EXPECT_EQ(ids[r], static_cast<int>(r));
    num_failed += outcome.empty() ? 0 : 1;
    if (HasFailure()) break;
  }
  EXPECT_GT(num_failed, 20);
  EXPECT_LT(num_failed, 230);
}

INSTANTIATE_TEST_SUITE_P(Replicas, Schedules, testing::Range(1, 5));

}  // namespace
}  // namespace tutti
