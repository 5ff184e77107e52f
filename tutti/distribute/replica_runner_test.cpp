// What ends a run early, and the random numbers and threads of its replicas.
#include "tutti/distribute/replica_runner.h"
#include "tests/support/test_devices.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include "tests/support/collected_warnings.h"
#include "tests/support/dataset_values.h"
#include "tests/support/three_replicas.h"
#include "tutti/collectives/failure.h"
#include "tutti/core/release_queue.h"
#include "tutti/distribute/mirrored_strategy.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void meet() { get_replica_context().all_reduce(ReduceOp::sum, at::ones({})); }

struct UsersOwn {  // an exception of no standard type
  int number;
};

class Runner : public ThreeReplicas {
 protected:
  void expect_usable() {
    const auto sums =
        strategy.run([] { return get_replica_context().all_reduce(ReduceOp::sum, at::ones({})).item<int>(); });
    EXPECT_THAT(sums.values(), ElementsAre(3, 3, 3));
  }
};

class AThrowingReplica : public Runner {};
class ASkippedCollective : public Runner {};
class RandomNumbers : public Runner {};

// A checkpoint's writer gives back its shares of the variables, which only this thread may drop.
TEST_F(Runner, ReleasesAtTheNextRunWhatOtherThreadsGaveBack) {
  auto thing = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = thing;
  const auto queue = ReleaseQueue::of_this_thread();
  std::thread([&] { queue->put(std::move(thing)); }).join();
  EXPECT_FALSE(alive.expired());
  strategy.run([&] { EXPECT_TRUE(alive.expired()); });
}

TEST_F(AThrowingReplica, EndsTheRunWithItsOwnExceptionUnchanged) {
  for (const int thrower : {0, 1, 2}) {
    try {
      strategy.run([&] {
        if (replica() == thrower) throw UsersOwn{40 + thrower};
      });
      FAIL();
    } catch (const UsersOwn& thrown) {
      EXPECT_EQ(thrown.number, 40 + thrower);
      EXPECT_EQ(replica_of(std::current_exception()), thrower);
    }
    expect_usable();
  }
}

TEST_F(AThrowingReplica, ReleasesThoseThatWaitForIt) {
  std::atomic<int> released{0};
  try {
    strategy.run([&] {
      if (replica() == 1) throw UsersOwn{1};
      try {
        meet();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::cancelled);
        EXPECT_THAT(error.what(), AllOf(HasSubstr("replica 1 failed"), HasSubstr("replica_runner_test.cpp:")));
        ++released;
        throw;
      }
    });
    FAIL();
  } catch (const UsersOwn&) {
    EXPECT_EQ(replica_of(std::current_exception()), 1);
  }
  EXPECT_EQ(released, 2);
  expect_usable();
}

TEST_F(AThrowingReplica, OneAtATimeReleasesTheOthersToo) {
  const auto failing = [] {
    if (replica() == 2) throw UsersOwn{2};
    meet();
  };
  EXPECT_THROW(strategy.run(RunOptions{.one_at_a_time = true}, failing), UsersOwn);
  expect_usable();
}

TEST_F(AThrowingReplica, EndsARunOfOneReplicaToo) {
  MirroredStrategy one({.devices = test_devices(1)});
  try {
    one.run([] { throw UsersOwn{1}; });
    FAIL();
  } catch (const UsersOwn&) {
    EXPECT_EQ(replica_of(std::current_exception()), 0);
  }
  EXPECT_THAT(one.run([] { return 3; }).values(), ElementsAre(3));
}

TEST_F(ASkippedCollective, IsAnErrorThatSaysWhoWaitsWhere) {
  const auto skipping = [] {
    if (replica() != 1) meet();
  };
  const std::string error = error_of([&] { strategy.run(skipping); });
  EXPECT_THAT(error, AllOf(HasSubstr("failed_precondition"),
                           HasSubstr("replicas [0, 2] wait in all_reduce (replica_runner_test.cpp:"),
                           HasSubstr("replicas [1] have finished")));
  try {
    strategy.run(skipping);
  } catch (const Error&) {
    EXPECT_EQ(replica_of(std::current_exception()), -1);  // nobody's alone
  }
  expect_usable();
}

TEST_F(ASkippedCollective, ForAnotherNamesBothPlaces) {
  constexpr int kHere = __LINE__;
  const auto different = [] {
    if (replica() == 0)
      get_replica_context().all_reduce(ReduceOp::sum, at::ones({}));
    else
      get_replica_context().merge_call([](Strategy&) {});
  };
  EXPECT_THAT(error_of([&] { strategy.run(different); }),
              AllOf(HasSubstr("replicas [0] wait in all_reduce (replica_runner_test.cpp:" + std::to_string(kHere + 3)),
                    HasSubstr("(replica_runner_test.cpp:" + std::to_string(kHere + 5))));
  expect_usable();
}

TEST_F(ASkippedCollective, OfAnotherKindOfReductionIsAnError) {
  const auto different = [] {
    get_replica_context().all_reduce(replica() == 0 ? ReduceOp::sum : ReduceOp::mean, at::ones({}));
  };
  EXPECT_THAT(error_of([&] { strategy.run(different); }), HasSubstr("failed_precondition: the replicas do not meet"));
}

TEST_F(ASkippedCollective, InBackwardIsAnErrorThatNamesTheForwardCall) {
  constexpr int kHere = __LINE__;
  const auto skipping = [] {
    const Tensor x = at::ones({}).set_requires_grad(true);
    const Tensor sum = get_replica_context().all_reduce(ReduceOp::sum, x);
    if (replica() != 2) sum.backward();
  };
  EXPECT_THAT(
      error_of([&] { strategy.run(skipping); }),
      AllOf(HasSubstr("failed_precondition"),
            HasSubstr("[0, 1] wait in gradient of all_reduce (replica_runner_test.cpp:" + std::to_string(kHere + 3)),
            HasSubstr("replicas [2] have finished")));
  expect_usable();
}

TEST_F(ASkippedCollective, OneAtATimeIsAnErrorToo) {
  const auto skipping = [] {
    if (replica() == 2) meet();
  };
  EXPECT_THAT(error_of([&] { strategy.run(RunOptions{.one_at_a_time = true}, skipping); }),
              HasSubstr("failed_precondition: the replicas do not meet"));
  expect_usable();
}

PerReplica<Tensor> draw(Strategy& strategy) {
  return strategy.run([] { return at::rand({8}); });
}

TEST_F(RandomNumbers, DifferBetweenReplicasAndBetweenDraws) {
  const auto first = draw(strategy), second = draw(strategy);
  EXPECT_NE(numbers(first[0]), numbers(first[1]));
  EXPECT_NE(numbers(first[1]), numbers(first[2]));
  EXPECT_NE(numbers(first[0]), numbers(second[0]));
}

TEST_F(RandomNumbers, AreTheSameAgainAfterTheSameSeed) {
  set_random_seed(5);
  const auto first = draw(strategy);
  draw(strategy);
  set_random_seed(5);
  const auto again = draw(strategy);
  MirroredStrategy other({.devices = test_devices(3)});
  const auto elsewhere = draw(other);
  set_random_seed(6);
  const auto different = draw(strategy);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_TRUE(at::equal(first[r], again[r]));
    EXPECT_TRUE(at::equal(first[r], elsewhere[r]));
    EXPECT_FALSE(at::equal(first[r], different[r]));
  }
}

TEST_F(RandomNumbers, OfSeveralReplicasLeaveTheDefaultGeneratorAlone) {
  set_random_seed(5);
  const Tensor undisturbed = at::rand({8});
  set_random_seed(5);
  draw(strategy);
  EXPECT_TRUE(at::equal(at::rand({8}), undisturbed));
}

TEST_F(RandomNumbers, OfOneReplicaAreThoseOfTheProgramWithoutAStrategy) {
  MirroredStrategy one({.devices = test_devices(1)});
  set_random_seed(5);
  const Tensor plain = at::rand({8});
  set_random_seed(5);
  EXPECT_TRUE(at::equal(draw(one)[0], plain));
}

// Which takes no generator.
TEST_F(RandomNumbers, OfANativeDropoutAreTheReplicasOwn) {
  const auto draw_mask = [&] {
    return strategy.run([] { return std::get<1>(at::native_dropout(at::ones({64}), 0.5, true)).cpu(); });
  };
  set_random_seed(5);
  const Tensor undisturbed = at::rand({8});
  set_random_seed(5);
  const auto first = draw_mask();
  EXPECT_TRUE(at::equal(at::rand({8}), undisturbed));
  EXPECT_FALSE(at::equal(first[0], first[1]));
  set_random_seed(5);
  EXPECT_TRUE(at::equal(draw_mask()[1], first[1]));
  const auto gradients = strategy.run([] {
    const Tensor x = at::ones({64}).set_requires_grad(true);
    const auto [dropped, mask] = at::native_dropout(x, 0.5, true);
    dropped.sum().backward();
    return at::equal(x.grad(), dropped) && at::equal(dropped, mask * 2.0);
  });
  EXPECT_THAT(gradients.values(), Each(true));
}

TEST_F(RandomNumbers, ComeFromTheUsersGeneratorWhereOneIsGiven) {
  const auto drawn = strategy.run([] { return at::rand({8}, at::detail::createCPUGenerator(9)); });
  const Tensor plain = at::rand({8}, at::detail::createCPUGenerator(9));
  for (const Tensor& own : drawn) EXPECT_TRUE(at::equal(own, plain));
}

TEST_F(RandomNumbers, WarnOnceOfASeedThatReplicasSet) {
  const CollectedWarnings warnings;
  for (int run = 0; run < 3; ++run) strategy.run([&] { at::manual_seed(100 + static_cast<uint64_t>(run)); });
  EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr("set_random_seed()")));
}

TEST_F(Runner, GivesEachOfSeveralReplicasOneIntraOpThread) {
  const int before = at::get_num_threads();
  EXPECT_THAT(strategy.run([] { return at::get_num_threads(); }).values(), Each(1));
  EXPECT_EQ(at::get_num_threads(), before);
  MirroredStrategy one({.devices = test_devices(1)});
  EXPECT_THAT(one.run([] { return at::get_num_threads(); }).values(), Each(before));
}

}  // namespace
}  // namespace tutti
