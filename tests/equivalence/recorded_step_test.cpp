// Training steps of Keras models and optimizers that `function` has recorded.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tutti/function/function.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/schedules.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

struct RecordedTraining {
  Sequential model{{layers::Dense({.units = 16, .activation = "relu"}), layers::BatchNormalization(),
                    layers::Dropout({.rate = 0.25}), layers::Dense({.units = 4})}};
  optimizers::Adam optimizer{{.learning_rate = optimizers::schedules::ExponentialDecay(
                                  {.initial_learning_rate = 0.01, .decay_steps = 3, .decay_rate = 0.5})}};
  losses::SparseCategoricalCrossentropy loss{{.from_logits = true}};

  Tensor step(const Tensor& x, const Tensor& y) {
    const Tensor value = loss(y, model(x, {.training = true}));
    const auto gradients = torch::autograd::grad({value}, model.trainable_variables());
    optimizer.apply_gradients(gradients, model.trainable_variables());
    return value.detach();
  }
};

TEST(RecordedStep, TrainsAKerasModelAsAPlainStepDoes) {
  const Tensor x = torch::randn({8, 12}), y = torch::randint(4, {8});
  torch::manual_seed(2);
  RecordedTraining plain;
  plain.model.build({8, 12});
  torch::manual_seed(2);
  RecordedTraining own;
  own.model.build({8, 12});
  const auto step = function([&](const Tensor& a, const Tensor& b) { return own.step(a, b); });
  for (int i = 0; i < 10; ++i) {
    torch::manual_seed(i);  // of dropout
    const Tensor wanted = plain.step(x + i, y);
    torch::manual_seed(i);
    EXPECT_TRUE(torch::equal(step(x + i, y), wanted)) << "step " << i;
  }
  const auto weights = own.model.get_weights(), wanted = plain.model.get_weights();
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(torch::equal(weights[i], wanted[i])) << i;
  EXPECT_EQ(own.optimizer.iterations(), 10);
  EXPECT_EQ(step.tracing_count(), 2);
}

}  // namespace
}  // namespace tutti::keras
