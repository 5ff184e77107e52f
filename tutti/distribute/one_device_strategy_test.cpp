#include "tutti/distribute/one_device_strategy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(OneDevice, HasOneReplicaOnTheNamedDevice) {
  configure_logical_cpus(2);
  OneDeviceStrategy strategy("CPU:1");
  EXPECT_EQ(strategy.name(), "OneDeviceStrategy");
  EXPECT_THAT(strategy.devices(), ElementsAre(Device("CPU:1")));
  EXPECT_EQ(strategy.num_replicas_in_sync(), 1);
  const Tensor weight = strategy.build([] { return at::ones({2}).set_requires_grad(true); });
  EXPECT_EQ(layout_of(weight).mesh(), strategy.mesh());
  const auto losses = strategy.run(
      [&](const Tensor& x) {
        EXPECT_EQ(get_replica_context().replica_id_in_sync_group(), 0);
        const Tensor loss = (weight * x).sum();
        loss.backward();
        return loss.detach();
      },
      strategy.distribute(at::ones({2})));
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, losses).item<float>(), 2);
  EXPECT_THAT(numbers(gather(weight.grad())), ElementsAre(1, 1));
}

TEST(OneDevice, RefusesADeviceThatDoesNotExist) {
  EXPECT_THAT(error_of([] { OneDeviceStrategy("GPU:99"); }), AllOf(HasSubstr("not_found"), HasSubstr("GPU:99")));
}

}  // namespace
}  // namespace tutti
