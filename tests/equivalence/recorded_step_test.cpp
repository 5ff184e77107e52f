// Training steps of Keras models and optimizers that `function` has recorded.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/same_bits.h"
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

// What kernels of the library's own compute: products of matrices, pooling, log_softmax; and LibTorch's recurrences.
struct Recurrence : torch::nn::Module {
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(20, 24).num_layers(2)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(24, 10));
  Tensor forward(const Tensor& x) { return head(std::get<0>(lstm(x.view({x.size(0), -1, 20}).transpose(0, 1)))[-1]); }
};

torch::nn::Sequential network(int kind) {
  using namespace torch::nn;
  switch (kind) {
    case 0: return torch::nn::Sequential(Linear(240, 48), BatchNorm1d(48), ReLU(), Linear(48, 10));
    case 1: return torch::nn::Sequential(Recurrence());
    default:
      return torch::nn::Sequential(Unflatten(1, std::vector<int64_t>{1, 12, 20}), Conv2d(1, 6, 3), ReLU(), MaxPool2d(2),
                                   Conv2d(6, 8, 2), ReLU(), MaxPool2d(2), Flatten(), Linear(64, 32), ReLU(),
                                   Linear(32, 10));
  }
}

class RecordedStepOfModules : public testing::TestWithParam<int> {};

TEST_P(RecordedStepOfModules, GivesTheBitsOfAPlainStep) {
  const auto make = [] {
    torch::manual_seed(3);
    return network(GetParam());
  };
  torch::nn::Sequential plain = make(), own = make();
  torch::optim::SGD optimizer(plain->parameters(), 0.1), own_optimizer(own->parameters(), 0.1);
  const auto step = [](torch::nn::Sequential& model, torch::optim::SGD& sgd, const Tensor& x, const Tensor& y) {
    sgd.zero_grad();
    const Tensor loss = torch::nll_loss(torch::log_softmax(model->forward(x), 1), y);
    loss.backward();
    sgd.step();
    return loss.detach();
  };
  const auto recorded = function([&](const Tensor& x, const Tensor& y) { return step(own, own_optimizer, x, y); });
  for (int i = 0; i < 12; ++i) {
    const Tensor x = torch::randn({32, 240}), y = torch::randint(10, {32});
    const Tensor wanted = step(plain, optimizer, x, y), seen = recorded(x, y);
    EXPECT_EQ(seen.item<float>(), wanted.item<float>()) << "step " << i;
  }
  const auto weights = own->parameters(), wanted = plain->parameters();
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(same_bits(weights[i], wanted[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Networks, RecordedStepOfModules, testing::Values(0, 1, 2));

}  // namespace
}  // namespace tutti::keras
