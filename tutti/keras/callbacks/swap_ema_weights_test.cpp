#include "tutti/keras/callbacks/swap_ema_weights.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras::callbacks {
namespace {

Sequential line(bool use_ema) {
  const Sequential model({layers::Dense({.units = 1, .use_bias = false, .kernel_initializer = initializers::Ones()})});
  // The averages stay what the weights were after the first update: 0.8.
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1, .use_ema = use_ema, .ema_momentum = 1}),
                 .loss = losses::MeanSquaredError()});
  return model;
}

TEST(SwapEMAWeights, EvaluatesTheAveragesAndTrainsTheWeights) {
  for (const bool swap_on_epoch : {false, true}) {
    const Sequential model = line(/*use_ema=*/true);
    const Tensor x = at::ones({2, 1}), y = at::zeros({2, 1});
    const History history = model.fit(x, y,
                                      {.epochs = 3,
                                       .verbose = Verbose::silent,
                                       .callbacks = {SwapEMAWeights({.swap_on_epoch = swap_on_epoch})},
                                       .validation_data = Batches::from_tensors({x, y}, {})});
    EXPECT_THAT(history.history.at("val_loss"), testing::Each(testing::DoubleNear(0.64, 1e-6)));
    EXPECT_NEAR(history.history.at("loss")[2], 0.64 * 0.64, 1e-6);
    EXPECT_NEAR(model.get_weights()[0].item<double>(), 0.8, 1e-6);  // fit ends with the averages
  }
}

TEST(SwapEMAWeights, NeedsAnOptimizerWithAverages) {
  const Sequential model = line(/*use_ema=*/false);
  const Tensor x = at::ones({2, 1});
  EXPECT_THAT(error_of([&] {
                model.fit(x, x, {.verbose = Verbose::silent, .callbacks = {SwapEMAWeights()}, .validation_split = 0.5});
              }),
              testing::HasSubstr("use_ema"));
}

}  // namespace
}  // namespace tutti::keras::callbacks
