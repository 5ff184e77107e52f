#include "tutti/distribute/gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::Each;

class Gradients : public testing::Test {
 protected:
  const Watchdog watchdog{std::chrono::seconds(60)};
  MirroredStrategy strategy{{.devices = test_devices(3)}};
  Tensor used = strategy.build([] { return at::full({2}, 3.0).set_requires_grad(true); });
  Tensor unused = strategy.build([] { return at::full({2}, 3.0).set_requires_grad(true); });
};

TEST_F(Gradients, AreTheReplicasOwnInRun) {
  const auto own = strategy.run([&] {
    const auto scale = get_replica_context().replica_id_in_sync_group() + 1;
    return gradients((used.square() * scale).sum(), {used, unused});
  });
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_THAT(numbers(own[r][0]), Each(6 * (r + 1)));
    EXPECT_FALSE(own[r][1].defined());
  }
}

TEST_F(Gradients, AreGlobalInGlobalView) {
  const auto global = gradients(used.square().sum(), {used, unused});
  EXPECT_THAT(numbers(gather(global[0])), Each(6));
  EXPECT_FALSE(global[1].defined());
}

TEST_F(Gradients, OfNothingAreNone) { EXPECT_TRUE(gradients(used.sum(), {}).empty()); }

TEST_F(Gradients, AccumulateNothing) {
  strategy.run([&] { gradients(used.sum(), {used}); });
  gradients(used.sum(), {used});
  EXPECT_FALSE(used.grad().defined());
}

}  // namespace
}  // namespace tutti
