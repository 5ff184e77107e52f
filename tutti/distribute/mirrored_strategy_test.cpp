#include "tutti/distribute/mirrored_strategy.h"
#include "tests/support/test_devices.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <utility>

#include "tests/support/dataset_values.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/three_replicas.h"
#include "tutti/checkpoint/weights.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Mirrored : public ThreeReplicas {};

class BuildInRun : public Mirrored {};

TEST_F(Mirrored, HasAReplicaForEachDeviceInTheirOrder) {
  MirroredStrategy some({.devices = {"CPU:2", "/cpu:0"}});
  EXPECT_EQ(some.num_replicas_in_sync(), 2);
  EXPECT_THAT(some.devices(), ElementsAre(Device("CPU:2"), Device("CPU:0")));
  EXPECT_EQ(some.mesh().to_string(), "<replica=2>");
}

TEST_F(Mirrored, WithoutAListTakesEveryGpuOrElseTheCpu) {
  const auto gpus = list_logical_devices(DeviceType::gpu);
  EXPECT_EQ(MirroredStrategy().devices(), gpus.empty() ? std::vector<Device>{"CPU:0"} : gpus);
}

TEST_F(Mirrored, RefusesAnEmptyList) {
  EXPECT_THAT(error_of([] { MirroredStrategy({.devices = {}}); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("the list of devices is empty")));
  EXPECT_THAT(error_of([] { MirroredStrategy({.devices = std::vector<Device>()}); }), HasSubstr("invalid_argument"));
}

TEST_F(Mirrored, RefusesADeviceListedTwice) {
  EXPECT_THAT(error_of([] {
                MirroredStrategy({.devices = {"CPU:0", "CPU:1", "/device:cpu:0"}});
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("CPU:0")));
}

TEST_F(Mirrored, RefusesADeviceThatDoesNotExist) {
  EXPECT_THAT(error_of([] { MirroredStrategy({.devices = {"GPU:99"}}); }),
              AllOf(HasSubstr("not_found"), HasSubstr("GPU:99")));
  EXPECT_THAT(error_of([] { MirroredStrategy({.devices = {"quantum:0"}}); }), HasSubstr("invalid_argument"));
}

TEST_F(Mirrored, BuildMakesMirroredVariables) {
  const Tensor weight = strategy.build([] { return at::ones({2}); });
  ASSERT_TRUE(is_mesh_tensor(weight));
  EXPECT_EQ(layout_of(weight).mesh(), strategy.mesh());
  EXPECT_FALSE(is_mesh_tensor(at::ones({2})));
}

TEST_F(Mirrored, VariablesTakeAStateDictInAllReplicas) {
  const TemporaryFolder folder;
  const torch::nn::Linear saved(3, 2);
  save_weights(saved, folder / "w.safetensors", {{"weight", "module.weight"}, {"bias", "module.bias"}});
  const auto linear = strategy.build([] { return torch::nn::Linear(3, 2); });
  const auto rename = [](const std::string& own) { return "module." + own; };
  const auto scope = strategy.scope();
  load_state_dict(linear, folder / "w.safetensors", {.rename = rename});
  strategy.run([&] {
    EXPECT_TRUE(linear->weight.equal(moved(saved->weight)));
    EXPECT_TRUE(linear->bias.equal(moved(saved->bias)));
  });
  EXPECT_TRUE(linear->weight.requires_grad());
  EXPECT_EQ(layout_of(linear->weight).mesh(), strategy.mesh());
}

TEST_F(Mirrored, VariablesOutliveTheirStrategy) {
  Tensor weight;
  {
    MirroredStrategy passing({.devices = test_devices(2)});
    weight = passing.build([] { return at::ones({2}).set_requires_grad(true); });
    passing.run([&] { (weight * (replica() + 1)).sum().backward(); });
  }
  EXPECT_THAT(numbers(gather(weight.grad())), Each(3));
  (weight * 2).sum().backward();
  EXPECT_THAT(numbers(gather(weight.grad())), Each(5));
  weight = weight.detach().add_(1);
  EXPECT_THAT(numbers(gather(weight)), Each(2));
  MirroredStrategy next({.devices = test_devices(2)});
  EXPECT_THAT(next.run([&] { return weight.sum().item<float>(); }).values(), ElementsAre(4, 4));
}

TEST_F(Mirrored, AVariableOfFewerReplicasIsRefused) {
  MirroredStrategy small({.devices = test_devices(2)});
  const Tensor weight = small.build([] { return at::ones({2}); });
  EXPECT_THAT(error_of([&] { strategy.run([&] { return weight.sum(); }); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("another strategy")));
}

TEST_F(Mirrored, SeveralStrategiesWorkSideBySide) {
  MirroredStrategy other({.devices = test_devices(2)});
  const auto make = [] { return at::ones({2}).set_requires_grad(true); };
  const Tensor weight = strategy.build(make), other_weight = other.build(make);
  strategy.run([&] { weight.sum().backward(); });
  other.run([&] { other_weight.sum().backward(); });
  EXPECT_THAT(numbers(gather(weight.grad())), Each(3));
  EXPECT_THAT(numbers(gather(other_weight.grad())), Each(2));
}

TEST_F(BuildInRun, RunsReplicaZerosInitializerOnceForAll) {
  std::atomic<int> calls{0};
  const auto weights = strategy.run([&] {
    return strategy.build([&, own = replica()] {
      ++calls;
      return at::full({2}, own + 5);
    });
  });
  EXPECT_EQ(calls, 1);
  for (const Tensor& weight : weights) {
    EXPECT_TRUE(weight.is_same(weights[0]));
    EXPECT_THAT(numbers(gather(weight)), Each(5));
  }
}

TEST_F(BuildInRun, GivesVariablesThatTrainAtOnce) {
  const auto modules = strategy.run([&] {
    auto linear = strategy.build([] { return torch::nn::Linear(2, 1); });
    linear(at::full({1, 2}, static_cast<float>(replica()))).sum().backward();
    EXPECT_THAT(numbers(linear->weight.grad()), Each(replica()));
    return linear;
  });
  EXPECT_EQ(modules[0].ptr(), modules[2].ptr());
  EXPECT_THAT(numbers(gather(modules[0]->weight.grad())), Each(3));
}

TEST_F(BuildInRun, WhatTheInitializerThrowsEveryReplicaThrows) {
  std::atomic<int> caught{0};
  strategy.run([&] {
    try {
      strategy.build([] { throw std::out_of_range("mine"); });
    } catch (const std::out_of_range&) {
      ++caught;
    }
  });
  EXPECT_EQ(caught, 3);
}

TEST_F(BuildInRun, UnequalCreationIsAnErrorThatNamesBothPlaces) {
  const auto different = [&] {
    if (replica() == 0)
      strategy.build([] { return at::ones({2}); });
    else
      strategy.build([] { return torch::nn::Linear(2, 1); });
  };
  EXPECT_THAT(error_of([&] { strategy.run(different); }),
              AllOf(HasSubstr("failed_precondition: the replicas do not meet"), HasSubstr("replicas [0] wait in build"),
                    HasSubstr("replicas [1, 2] wait in build"), HasSubstr("mirrored_strategy_test.cpp:")));
  const auto alone = [&] {
    if (replica() == 0) strategy.build([] { return at::ones({2}); });
  };
  EXPECT_THAT(error_of([&] { strategy.run(alone); }), HasSubstr("failed_precondition: the replicas do not meet"));
}

TEST_F(Mirrored, GoesOnInADatasetWhereItWas) {
  const auto distributed = [] {
    MirroredStrategy two({.devices = {"CPU:0", "CPU:1"}});
    return two.distribute(data::range(20).shuffle(7, {.seed = 1}).repeat(2).batch(6).prefetch(2));
  };
  const auto next = [](auto& iterator) {
    const auto step = iterator.next();
    return std::pair(numbers(step[0]), numbers(step[1]));
  };
  auto iterator = distributed().begin();
  next(iterator);
  auto again = distributed().begin();
  again.restore_state(iterator.save_state());
  for (int step = 1; step < 7; ++step) EXPECT_EQ(next(again), next(iterator));
  EXPECT_TRUE(again == std::default_sentinel);
}

}  // namespace
}  // namespace tutti
