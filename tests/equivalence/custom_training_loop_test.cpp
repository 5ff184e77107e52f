// The loop of examples/custom_training_loop.cpp: the losses that the tf.distribute guide prints, with any number of
// replicas, plain and recorded.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/data/dataset.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/function/function.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::equivalence {
namespace {

constexpr int kLoopSteps = 60;
constexpr double kKernel = -0.55429743;
constexpr double kTolerance = 2e-7;

std::vector<double> losses(int replicas, bool recorded) {
  MirroredStrategy strategy({.devices = test_devices(replicas)});
  const auto dataset =
      data::from_tensors(torch::ones({1}), torch::ones({1})).repeat(5 * replicas * kLoopSteps).batch(5 * replicas);
  const auto [model, optimizer] = strategy.build([] {
    keras::Sequential model({keras::layers::Dense({.units = 1,
                                                   .kernel_initializer = keras::initializers::Constant(kKernel),
                                                   .kernel_regularizer = keras::regularizers::L2(1e-4)})});
    return std::pair(model, keras::optimizers::SGD({.learning_rate = 0.01}));
  });
  const keras::losses::BinaryCrossentropy loss_object({.from_logits = true, .reduction = keras::Reduction::none});
  const auto train_step = [&, &model = model, &optimizer = optimizer](const Tensor& features, const Tensor& labels) {
    const Tensor predictions = model(features, {.training = true});
    const Tensor loss =
        compute_average_loss(loss_object(labels, predictions)) + scale_regularization_loss(model.losses());
    optimizer.apply_gradients(gradients(loss, model.trainable_variables()), model.trainable_variables());
    return loss.detach();
  };
  const auto plain_step = [&](const PerReplica<std::tuple<Tensor, Tensor>>& batch) {
    return strategy.reduce(ReduceOp::sum, strategy.run(train_step, batch));
  };
  const auto recorded_step = function(plain_step);
  std::vector<double> values;
  for (const auto& batch : strategy.distribute(dataset))
    values.push_back((recorded ? recorded_step(batch) : plain_step(batch)).item<double>());
  return values;
}

// The same in double precision: every sample is x = 1, y = 1, so that loss = log(1 + exp(-w - b)) + 1e-4 w^2.
std::vector<double> exact_losses() {
  std::vector<double> values;
  double w = kKernel, b = 0;
  for (int step = 0; step < kLoopSteps; ++step) {
    values.push_back(std::log1p(std::exp(-w - b)) + 1e-4 * w * w);
    const double slope = -1 / (1 + std::exp(w + b));
    w -= 0.01 * (slope + 2e-4 * w);
    b -= 0.01 * slope;
  }
  return values;
}

class CustomTrainingLoop : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  const Watchdog watchdog{std::chrono::seconds(120)};
};

TEST_P(CustomTrainingLoop, GivesTheLossesOfTheGuide) {
  const auto [replicas, recorded] = GetParam();
  const auto values = losses(replicas, recorded);
  const auto exact = exact_losses();
  ASSERT_EQ(values.size(), exact.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], exact[i], kTolerance) << "step " << i + 1;
  const std::pair<size_t, double> printed[] = {{1, 1.0082505},   {2, 1.0002},     {3, 0.9922241},
                                               {50, 0.69249296}, {51, 0.6875115}, {60, 0.6448556}};
  for (const auto& [step, loss] : printed) EXPECT_NEAR(values[step - 1], loss, kTolerance) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(ReplicasAndRecorded, CustomTrainingLoop,
                         testing::Combine(testing::Values(1, 2, 4, 8), testing::Bool()));

}  // namespace
}  // namespace tutti::equivalence
