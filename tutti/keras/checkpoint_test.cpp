#include "tutti/checkpoint/checkpoint.h"

#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras {
namespace {

Sequential make_model(MirroredStrategy& strategy) {
  return strategy.build([] {
    Sequential model({layers::Dense({.units = 4}), layers::Dense({.units = 1})});
    model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}), .loss = losses::MeanSquaredError()});
    return model;
  });
}

void train(const Sequential& model) {
  set_random_seed(7);
  const Tensor x = at::rand({32, 3});
  model.fit(x, x.sum(1, /*keepdim=*/true), {.batch_size = 8, .epochs = 2, .verbose = Verbose::silent});
}

TEST(KerasCheckpoint, AModelGoesOnWithItsWeightsAndItsOptimizerOnAnyNumberOfReplicas) {
  const TemporaryFolder folder;
  MirroredStrategy two({.devices = configure_logical_cpus(2)});
  const Sequential model = make_model(two);
  train(model);
  Checkpoint({{"model", model}}).write(folder / "c");
  train(model);

  for (const size_t replicas : {size_t{2}, size_t{3}}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential again = make_model(strategy);
    strategy.build([&] { again.build({8, 3}); });
    Checkpoint({{"model", again}}).restore(folder / "c").assert_consumed();
    train(again);
    const auto expected = model.get_weights();
    const auto weights = again.get_weights();
    ASSERT_EQ(weights.size(), expected.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      const bool same = replicas == 2 ? weights[i].equal(expected[i]) : weights[i].allclose(expected[i], 1e-5, 1e-6);
      EXPECT_TRUE(same) << replicas << " replicas, weight " << i;
    }
  }
}

TEST(KerasCheckpoint, AModelWithoutWeightsIsRefused) {
  const TemporaryFolder folder;
  MirroredStrategy strategy({.devices = configure_logical_cpus(1)});
  const Sequential model = make_model(strategy);
  EXPECT_THAT(error_of([&] {
                Checkpoint({{"model", model}}).write(folder / "c");
              }),
              testing::StartsWith("failed_precondition: sequential"));
}

TEST(KerasCheckpoint, AnOptimizerThatDoesNotKnowItsVariablesSaysSo) {
  const TemporaryFolder folder;
  const Tensor variable = at::rand({3});
  const optimizers::Adam optimizer;
  optimizer.apply_gradients({at::rand({3})}, {variable});
  Checkpoint({{"optimizer", optimizer}}).write(folder / "c");
  const optimizers::Adam fresh;
  const Checkpoint checkpoint({{"optimizer", fresh}});
  EXPECT_THAT(error_of([&] { checkpoint.restore(folder / "c").expect_partial(); }), testing::HasSubstr("call build"));
  fresh.build({variable});
  checkpoint.restore(folder / "c").assert_consumed();
  EXPECT_EQ(fresh.iterations(), 1);
}

}  // namespace
}  // namespace tutti::keras
