#include "tutti/distribute/servers/worker_copies.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/server_thread.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/distribute/servers/variable_server.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::servers {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kSize = 3000;  // so many elements that messages stay where they come

// A variable, a buffer, and an optimizer that subtracts gradients: what both tasks have.
struct Twin {
  Twin() {
    state.add_variable(w);
    state.add_variable(buffer);
    ServedOptimizer sgd{.name = "sgd", .variables = {w}, .slots = {{}}};
    sgd.apply = [](auto gradients, auto variables, double) { Tensor(variables[0]).sub_(gradients[0].value); };
    state.add_optimizer(sgd);
  }

  ParameterServerStrategy strategy{
      {.cluster_resolver = cluster::ClusterResolver(), .devices = configure_logical_cpus(1)}};
  const Tensor w = strategy.build([] { return at::zeros({kSize}).set_requires_grad(true); });
  const Tensor buffer = strategy.build([] { return at::zeros({kSize}); });
  ServedState state{1, {}};
};

// A worker's copies of what a server has, which a thread of this process is, by memory that they share.
class Copies : public testing::TestWithParam<rpc::Carriage> {
 protected:
  // What another worker does meanwhile.
  void add_on_server(float value) {
    LongMessage push(Kind::push);
    for (const int64_t each : {next_of_other++, int64_t{0}, int64_t{0}, int64_t{0}}) push.number(each);
    const double scale = 1;
    push.raw(&scale, sizeof scale);
    for (const int64_t each : {0, 1, 0, 0}) push.number(each);
    const std::vector<float> gradient(kSize, -value);
    push.part(gradient.data(), gradient.size() * sizeof(float));
    thread.answer_other(push.bytes());
  }
  static float element(const Twin& of, int number) {
    const auto* memory = reinterpret_cast<const float*>(of.state.memory(number));
    EXPECT_EQ(memory[0], memory[kSize - 1]);
    return memory[0];
  }
  void push_ones() {
    const std::vector<Tensor> gradient{at::ones({kSize})}, variable{worker.w};
    copies.push(0, gradient, variable, 1);
  }
  std::vector<Kind> asked() { return thread.asked(); }

  Twin served, worker;
  VariableServer server{served.state, 0};
  testing_support::ServerThread thread{server, {"worker", 0}, GetParam()};
  int64_t next_of_other = 1000;
  WorkerCopies copies{worker.state, thread.links(),
                      [](int) { throw Error(ErrorCode::unavailable, "there is no other way"); }};
};

TEST_P(Copies, WhatTheNextCallReadsComesWithTheLastUpdate) {
  const auto call = [&](int64_t number, std::optional<int64_t> next) {
    copies.begin({.function = 0, .number = number}, 1,
                 next ? std::optional(WorkerCopies::Call{.function = 0, .number = *next}) : std::nullopt);
    copies.read(worker.w);
    EXPECT_EQ(element(worker, 0), static_cast<float>(1 - number));
    push_ones();
    copies.finish();
  };
  call(1, 2);
  EXPECT_THAT(asked(), ElementsAre(Kind::pull, Kind::pull, Kind::push)) << "the buffer, the variable, the update";
  call(2, 3);
  EXPECT_THAT(asked(), ElementsAre(Kind::pull, Kind::push)) << "by now it is known what a call reads and makes";
  for (int64_t number = 3; number < 9; ++number) call(number, number + 1);
  EXPECT_THAT(asked(), testing::AllOf(testing::SizeIs(6), testing::Each(Kind::push)));
  call(9, {});
  EXPECT_THAT(asked(), ElementsAre(Kind::push));
  call(10, {});
  EXPECT_THAT(asked(), ElementsAre(Kind::pull, Kind::push)) << "it was not known when the update was made";
}

TEST_P(Copies, BuffersThatCallsWriteAreSummedOnce) {
  for (int64_t number = 1; number < 10; ++number) {
    copies.begin({.function = 0, .number = number}, 1, WorkerCopies::Call{.function = 0, .number = number + 1});
    copies.read(worker.w);
    EXPECT_EQ(element(worker, 1), static_cast<float>(number - 1));
    EXPECT_EQ(element(worker, 0), static_cast<float>(1 - number));
    push_ones();
    Tensor(worker.buffer).add_(1);
    copies.finish();
  }
  EXPECT_EQ(element(served, 1), 9);
  const auto all = asked();
  EXPECT_EQ(std::ranges::count(all, Kind::pull), 3);
  EXPECT_EQ(std::ranges::count(all, Kind::push), 18);
}

TEST_P(Copies, AnotherCallReadsWhatIsThereWhenItBegins) {
  const auto begin = [&](int64_t number) {
    copies.begin({.function = 0, .number = number}, 1, WorkerCopies::Call{.function = 0, .number = number + 1});
    copies.read(worker.w);
  };
  for (int64_t number = 1; number < 4; ++number) {
    begin(number);
    push_ones();
    copies.finish();
  }
  add_on_server(50);
  begin(7);
  EXPECT_EQ(element(worker, 0), 47) << "call 4 would have read what was there when call 3 ended";
}

// What a call reads after its last update is later than what came along with that, and must not be followed by it.
TEST_P(Copies, NoCallReadsWhatIsOlderThanWhatTheOneBeforeRead) {
  const auto begin = [&](int function, int64_t number, int next) {
    copies.begin({.function = function, .number = number}, 1,
                 WorkerCopies::Call{.function = next, .number = number + 1});
  };
  for (int64_t number = 1; number < 4; ++number) {
    begin(0, number, 0);
    copies.read(worker.w);
    push_ones();
    copies.finish();
  }
  begin(1, 5, 0);  // of which nothing is known
  push_ones();
  copies.finish();
  begin(1, 6, 0);
  push_ones();
  add_on_server(50);
  copies.read(worker.w);
  EXPECT_EQ(element(worker, 0), 45);
  copies.finish();
  begin(0, 7, 0);
  EXPECT_EQ(element(worker, 0), 45);
}

TEST_P(Copies, AFailureOfTheServerIsThrownAndTheNextCallReadsAnew) {
  for (int64_t number = 1; number < 4; ++number) {
    copies.begin({.function = 0, .number = number}, 1, WorkerCopies::Call{.function = 0, .number = number + 1});
    copies.read(worker.w);
    push_ones();
    copies.finish();
  }
  copies.begin({.function = 0, .number = 4}, 1, WorkerCopies::Call{.function = 0, .number = 5});
  EXPECT_EQ(code_of([&] { copies.push(0, std::vector<Tensor>{at::ones({2})}, std::vector<Tensor>{worker.w}, 1); }),
            ErrorCode::invalid_argument);
  add_on_server(50);
  copies.begin({.function = 0, .number = 5}, 1);
  EXPECT_EQ(element(worker, 0), 47);
}

INSTANTIATE_TEST_SUITE_P(Ways, Copies, testing::Values(rpc::Carriage::sockets, rpc::Carriage::shared_memory),
                         [](const auto& way) {
                           return way.param == rpc::Carriage::sockets ? "Sockets" : "SharedMemory";
                         });

}  // namespace
}  // namespace tutti::servers
