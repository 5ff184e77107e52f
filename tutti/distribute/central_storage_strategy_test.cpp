#include "tutti/distribute/central_storage_strategy.h"
#include "tests/support/test_devices.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "tests/support/dataset_values.h"
#include "tests/support/watchdog.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/distribute/variable.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

int replica() { return get_replica_context().replica_id_in_sync_group(); }

class CentralStorage : public testing::Test {
 protected:
  const Watchdog watchdog{60s};
  const std::vector<Device> devices = test_devices(3);
  CentralStorageStrategy strategy{{.compute_devices = devices, .parameter_device = "CPU:0"}};
  const Tensor weight = strategy.build([] { return at::ones({2}).set_requires_grad(true); });
};

class ReadCopies : public CentralStorage {};

TEST_F(CentralStorage, ComputesOnSomeDevicesAndStoresOnOne) {
  EXPECT_EQ(strategy.name(), "CentralStorageStrategy");
  EXPECT_EQ(strategy.num_replicas_in_sync(), 3);
  EXPECT_EQ(strategy.devices(), devices);
  EXPECT_EQ(strategy.parameter_device(), Device("CPU:0"));
}

TEST_F(CentralStorage, StoresOnTheOnlyComputeDeviceOrElseTheCpu) {
  configure_logical_cpus(3);
  EXPECT_EQ(CentralStorageStrategy({.compute_devices = {"CPU:2"}}).parameter_device(), Device("CPU:2"));
  EXPECT_EQ(CentralStorageStrategy({.compute_devices = {"CPU:1", "CPU:2"}}).parameter_device(), Device("CPU:0"));
}

TEST_F(CentralStorage, RefusesDevicesThatAreNotThere) {
  EXPECT_THAT(error_of([] { CentralStorageStrategy({.compute_devices = {}}); }),
              AllOf(HasSubstr("invalid_argument: CentralStorageStrategy"), HasSubstr("is empty")));
  EXPECT_THAT(error_of([&] { CentralStorageStrategy({.compute_devices = devices, .parameter_device = "GPU:99"}); }),
              AllOf(HasSubstr("not_found"), HasSubstr("GPU:99")));
}

TEST_F(CentralStorage, TrainsAsMirroredVariablesDo) {
  const auto train = [](Strategy& strategy) {
    set_random_seed(5);
    auto linear = strategy.build([] { return torch::nn::Linear(3, 2); });
    Optimizer optimizer(torch::optim::SGD(linear->parameters(), 0.1));
    const auto batch = strategy.distribute(at::arange(18, at::kFloat).view({6, 3}));
    for (int step = 0; step < 3; ++step)
      strategy.run(
          [&](const Tensor& x) {
            optimizer.zero_grad();
            (linear(x).pow(2).sum() / 100).backward();
            optimizer.step();
          },
          batch);
    return numbers(gather(linear->weight));
  };
  MirroredStrategy mirrored({.devices = devices});
  EXPECT_EQ(train(strategy), train(mirrored));
}

TEST_F(CentralStorage, GivesEachReplicaItsOwnBuffers) {
  auto norm = strategy.build([] { return torch::nn::BatchNorm1d(1); });
  strategy.run([&] {
    norm(at::full({4, 1}, static_cast<float>(10 * replica())));
    EXPECT_NEAR(norm->running_mean.item<float>(), replica(), 1e-6);
  });
  EXPECT_NEAR(norm->running_mean.item<float>(), 1, 1e-6);
}

TEST_F(ReadCopies, ShareTheBufferWhereTheMemoryIsTheSame) {
  const auto addresses = strategy.run([&] { return local(weight).const_data_ptr(); });
  EXPECT_THAT(addresses.values(), Each(gather(weight).const_data_ptr()));
}

TEST_F(ReadCopies, FollowTheParameter) {
  const auto before = strategy.run([&] { return local(weight).detach().clone(); });
  {
    const at::NoGradGuard no_grad;
    weight.add_(1);
  }
  const auto after = strategy.run([&] { return local(weight).detach().clone(); });
  EXPECT_THAT(numbers(before[2]), Each(1));
  EXPECT_THAT(numbers(after[2]), Each(2));
}

TEST_F(ReadCopies, RefuseAWriteInPlaceNamingAssign) {
  const auto write = [&] {
    const at::NoGradGuard no_grad;
    if (replica() == 1) weight.add_(1);
  };
  EXPECT_THAT(error_of([&] { strategy.run(write); }),
              AllOf(HasSubstr("failed_precondition: aten::add_: replica 1"), HasSubstr("assign()")));
  EXPECT_THAT(numbers(gather(weight)), Each(1));
}

TEST_F(ReadCopies, AreThoseOfAParameterThatBecomesTrainableLater) {
  const Tensor frozen = strategy.build([] { return at::ones({2}); });
  strategy.run([&] { return frozen.sum().item<float>(); });
  frozen.requires_grad_(true);
  const auto write = [&] {
    const at::NoGradGuard no_grad;
    frozen.add_(1);
  };
  EXPECT_THAT(error_of([&] { strategy.run(write); }), HasSubstr("assign()"));
  EXPECT_THAT(error_of([&] { strategy.run([&] { frozen.set_data(at::zeros({2})); }); }), HasSubstr("assign()"));
  const auto write_alias = [&] {
    frozen.sum();
    frozen.detach().add_(1);
  };
  strategy.run(write_alias);
  EXPECT_THAT(error_of([&] { return gather(frozen); }), HasSubstr("assign()"));
}

TEST_F(ReadCopies, RefuseAnOptimizerThatStepsInEachReplica) {
  torch::optim::SGD optimizer({weight}, 0.1);
  const auto step = [&] {
    weight.sum().backward();
    optimizer.step();
  };
  EXPECT_THAT(error_of([&] { strategy.run(step); }), HasSubstr("assign()"));
}

TEST_F(ReadCopies, DropAWriteBehindTheirBackWithAnError) {
  strategy.run([&] {
    const at::NoGradGuard no_grad;
    if (replica() == 1) local(weight).view(-1).add_(1);
  });
  EXPECT_THAT(error_of([&] { return gather(weight); }), AllOf(HasSubstr("failed_precondition"), HasSubstr("assign()")));
  EXPECT_THAT(numbers(gather(weight)), Each(1));
  EXPECT_THAT(strategy.run([&] { return weight.sum().item<float>(); }).values(), Each(2));
}

TEST_F(ReadCopies, FollowWhatAllReplicasAssignTogether) {
  const Variable sum =
      strategy.build([] { return variable(at::ones({2}), {.aggregation = VariableAggregation::sum}); });
  strategy.run([&] {
    sum.assign_add(at::full({2}, static_cast<float>(replica())));
    EXPECT_EQ(sum.sum().item<float>(), 8);
  });
  EXPECT_THAT(numbers(gather(sum)), Each(4));
}

TEST_F(ReadCopies, RefuseToBeAssignedWithoutAnAggregation) {
  const Variable own = strategy.build([] { return variable(at::ones({2})); });
  EXPECT_THAT(error_of([&] { strategy.run([&] { own.assign_add(at::ones({2})); }); }),
              AllOf(HasSubstr("invalid_argument: assign_add"), HasSubstr("make it with an aggregation")));
  EXPECT_THAT(numbers(gather(own)), Each(1));
}

TEST_F(ReadCopies, AreUpdatedByOneUpdateOfTheParameter) {
  const auto results = strategy.update(weight, [](const Tensor& value) { return value.add_(1).sum().item<float>(); });
  EXPECT_THAT(results.values(), ElementsAre(4));
  EXPECT_THAT(strategy.run([&] { return weight.sum().item<float>(); }).values(), Each(4));
}

TEST_F(ReadCopies, MayBeWrittenWhereReplicasMeet) {
  strategy.run([&] {
    get_replica_context().merge_call([&](Strategy&) {
      const at::NoGradGuard no_grad;
      weight.add_(1);
    });
    EXPECT_EQ(weight.sum().item<float>(), 4);
  });
  EXPECT_THAT(numbers(gather(weight)), Each(2));
}

}  // namespace
}  // namespace tutti
