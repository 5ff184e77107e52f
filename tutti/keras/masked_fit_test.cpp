// Masks, weights and losses of whole batches in fit: one device's numbers on any number of replicas.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/initializers.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/layer_impl.h"
#include "tutti/keras/losses/circle.h"
#include "tutti/keras/losses/dice.h"
#include "tutti/keras/losses/hinge.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/metrics/auc.h"
#include "tutti/keras/metrics/f_score.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras {
namespace {

// Weighs and adds up the features of each step, [N, steps, 1], and hides steps whose features are all zeros.
class WeightedSum : public layers::LayerImpl {
 public:
  WeightedSum() : LayerImpl("WeightedSum", "") {}
  void build(const Shape& input_shape) override {
    scale_ = add_weight("scale", {input_shape.back()}, {.initializer = initializers::Ones()});
  }
  Tensor call(const Tensor& x, const layers::CallOptions&) const override { return (x * scale_).sum(-1, true); }
  Shape compute_output_shape(const Shape& input_shape) const override { return {input_shape[0], input_shape[1], 1}; }
  std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs, const std::vector<Tensor>&) const override {
    return {inputs[0].ne(0).any(-1)};
  }

 private:
  Tensor scale_;
};

struct Experiment {
  losses::Loss loss;
  std::vector<metrics::Metric> metrics;
  std::vector<layers::Layer> chain;
  Tensor x, y, sample_weight;
};

struct Trained {
  History history;
  std::vector<Tensor> weights;
};

// 13 samples in batches of 5: the last one is short, and leaves replicas with little or nothing.
Trained train(Strategy& strategy, const std::function<Experiment()>& make) {
  set_random_seed(3);
  Trained trained;
  Tensor x, y, sample_weight;
  const Sequential model = strategy.build([&] {
    const Experiment experiment = make();
    x = experiment.x, y = experiment.y, sample_weight = experiment.sample_weight;
    const Sequential built(experiment.chain);
    built.compile(
        {.optimizer = optimizers::SGD({.learning_rate = 0.1}), .loss = experiment.loss, .metrics = experiment.metrics});
    return built;
  });
  trained.history = model.fit(
      x, y,
      {.batch_size = 5, .epochs = 3, .verbose = Verbose::silent, .shuffle = false, .sample_weight = sample_weight});
  trained.weights = model.get_weights();
  return trained;
}

void expect_same_on_replicas(const std::function<Experiment()>& make) {
  const Trained one = train(get_strategy(), make);
  for (const int replicas : {1, 2, 4}) {
    SCOPED_TRACE(testing::Message() << replicas << " replicas");
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Trained many = train(strategy, make);
    for (const auto& [name, values] : one.history.history)
      for (size_t epoch = 0; epoch < values.size(); ++epoch)
        EXPECT_NEAR(many.history.history.at(name).at(epoch), values[epoch], 1e-5) << name;
    for (size_t i = 0; i < one.weights.size(); ++i)
      EXPECT_TRUE(at::allclose(many.weights[i], one.weights[i], 1e-4, 1e-5)) << i;
  }
}

// Sequences of 4 steps, of which each has a few.
Tensor sequences() {
  const Tensor counts = at::randint(0, 2, {13, 4, 1});
  return at::randn({13, 4, 3}) * counts;
}

TEST(MaskedFit, IsThatOfOneDevice) {
  for (const Reduction reduction : {Reduction::sum_over_batch_size, Reduction::mean_with_sample_weight})
    expect_same_on_replicas([&] {
      const Tensor x = sequences();
      return Experiment{.loss = losses::MeanSquaredError({.reduction = reduction}),
                        .metrics = {metrics::MeanAbsoluteError(), metrics::RootMeanSquaredError()},
                        .chain = {layers::Layer(std::make_shared<WeightedSum>())},
                        .x = x,
                        .y = x.square().sum(-1, true),
                        .sample_weight = at::rand({13})};
    });
}

TEST(MaskedFit, CountsWhatTheMaskKeeps) {
  const Tensor x = sequences();
  const Tensor kept = x.ne(0).any(-1);
  const Sequential model({layers::Layer(std::make_shared<WeightedSum>())});
  model.compile({.loss = losses::MeanSquaredError(), .metrics = {metrics::MeanSquaredError()}});
  const Tensor y = at::ones({13, 4, 1});
  const Logs logs = model.evaluate(x, y, {.batch_size = 13, .verbose = Verbose::silent});
  const double expected = (model.predict(x) - y).square().squeeze(-1).masked_select(kept).mean().item<double>();
  EXPECT_NEAR(logs.at("loss"), expected, 1e-5);
  EXPECT_NEAR(logs.at("mean_squared_error"), expected, 1e-5);
}

TEST(Fit, OfLossesThatLookBeyondTheirShardIsThatOfOneDevice) {
  const auto with = [](const losses::Loss& loss, const Tensor& y, int64_t units) {
    return Experiment{.loss = loss,
                      .metrics = {},
                      .chain = {layers::Dense({.units = units, .activation = activations::sigmoid})},
                      .x = at::rand({13, 3}),
                      .y = y};
  };
  const auto binary = [] { return at::randint(0, 2, {13, 2}, at::kFloat); };
  expect_same_on_replicas([&] { return with(losses::Dice(), binary(), 2); });
  expect_same_on_replicas([&] { return with(losses::Tversky({.alpha = 0.3, .beta = 0.7}), binary(), 2); });
  expect_same_on_replicas([&] { return with(losses::Hinge(), binary(), 2); });
  expect_same_on_replicas([&] { return with(losses::Circle({.gamma = 2}), at::randint(0, 3, {13}, at::kLong), 4); });
}

TEST(Fit, OfLossesAndMetricsOfClassesIsThatOfOneDevice) {
  expect_same_on_replicas([] {
    return Experiment{.loss = losses::SparseCategoricalCrossentropy({.from_logits = true, .ignore_class = 2}),
                      .metrics = {},
                      .chain = {layers::Dense({.units = 3})},
                      .x = at::rand({13, 3}),
                      .y = at::randint(0, 3, {13}, at::kLong)};
  });
  expect_same_on_replicas([] {
    return Experiment{.loss = losses::MeanSquaredError(),
                      .metrics = {metrics::AUC(), metrics::F1Score()},
                      .chain = {layers::Dense({.units = 2, .activation = activations::sigmoid})},
                      .x = at::rand({13, 3}),
                      .y = at::randint(0, 2, {13, 2}, at::kFloat)};
  });
}

}  // namespace
}  // namespace tutti::keras
