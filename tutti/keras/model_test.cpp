#include "tutti/keras/model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <tuple>
#include <vector>

#include "tests/support/error_of.h"
#include "tutti/data/dataset.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Pairs = std::vector<std::tuple<Tensor, Tensor>>;

// y = w x with w = 1 at first.
Sequential line(double learning_rate) {
  const Sequential model({layers::Dense({.units = 1, .use_bias = false, .kernel_initializer = initializers::Ones()})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = learning_rate}),
                 .loss = losses::MeanSquaredError(),
                 .metrics = {metrics::MeanAbsoluteError({.name = "mae"})}});
  return model;
}

Tensor column(std::vector<double> values) { return at::tensor(values, at::kFloat).view({-1, 1}); }

TEST(Fit, TakesOneStepPerBatch) {
  const Sequential model = line(0.1);
  const History history = model.fit(Pairs{{column({1, 1}), column({0, 0})}}, {.epochs = 2, .verbose = Verbose::silent});
  EXPECT_NEAR(model.get_weights()[0].item<double>(), 0.64, 1e-6);  // w -= 0.1 * 2w, twice
  EXPECT_THAT(history.epoch, ElementsAre(0, 1));
  EXPECT_NEAR(history.history.at("loss")[1], 0.64, 1e-6);
  EXPECT_NEAR(history.history.at("mae")[1], 0.8, 1e-6);
}

TEST(Fit, WeighsBatchesByTheirSamples) {
  const Sequential model = line(0);
  const Pairs batches{{column({1, 2}), column({0, 0})}, {column({3}), column({0})}};
  const History history = model.fit(batches, {.verbose = Verbose::silent});
  EXPECT_NEAR(history.history.at("loss")[0], 14.0 / 3, 1e-6);
  EXPECT_NEAR(history.history.at("mae")[0], 2, 1e-6);
}

TEST(Fit, OfTensorsIsFitOfTheirBatches) {
  const Tensor x = at::randn({7, 1}), y = at::randn({7, 1});
  const Sequential a = line(0.1), b = line(0.1);
  a.fit(x, y, {.batch_size = 3, .epochs = 2, .verbose = Verbose::silent, .shuffle = false});
  const auto cut = [&](int64_t begin, int64_t end) {
    return std::tuple(x.slice(0, begin, end), y.slice(0, begin, end));
  };
  b.fit(Pairs{cut(0, 3), cut(3, 6), cut(6, 7)}, {.epochs = 2, .verbose = Verbose::silent});
  EXPECT_TRUE(at::equal(a.get_weights()[0], b.get_weights()[0]));
}

TEST(Fit, TakesADataset) {
  const Tensor x = at::randn({7, 1}), y = at::randn({7, 1});
  const Sequential a = line(0.1), b = line(0.1);
  const auto dataset = data::from_tensor_slices(x, y).batch(3);
  a.fit(dataset, {.epochs = 2, .verbose = Verbose::silent, .validation_data = dataset});
  b.fit(x, y, {.batch_size = 3, .epochs = 2, .verbose = Verbose::silent, .shuffle = false});
  EXPECT_TRUE(at::equal(a.get_weights()[0], b.get_weights()[0]));
}

TEST(Fit, EvaluatesValidationDataAfterEachEpoch) {
  const Sequential model = line(0.1);
  const Pairs zero{{column({1}), column({0})}};
  const History history = model.fit(
      zero, {.epochs = 2, .verbose = Verbose::silent, .validation_data = Batches(Pairs{{column({2}), column({0})}})});
  EXPECT_NEAR(history.history.at("val_loss")[0], 4 * 0.64, 1e-5);
  EXPECT_NEAR(history.history.at("val_mae")[1], 2 * 0.64, 1e-5);
  EXPECT_NEAR(history.history.at("mae")[1], 0.8, 1e-6);
}

TEST(Fit, WeighsSamplesAndClasses) {
  const Tensor x = column({1, 1}), y = column({0, 1});
  const auto fitted = [&](const FitOptions& options) {
    const Sequential model = line(0.1);
    model.fit(x, y, options);
    return model.get_weights()[0].item<double>();
  };
  EXPECT_NEAR(fitted({.verbose = Verbose::silent}), 0.9, 1e-6);  // gradients 2 and 0, mean 1
  EXPECT_NEAR(fitted({.verbose = Verbose::silent, .sample_weight = at::tensor({0.5, 1.0})}), 0.95, 1e-6);
  EXPECT_NEAR(fitted({.verbose = Verbose::silent, .class_weight = {{0, 0.5}}}), 0.95, 1e-6);
  EXPECT_THAT(error_of([&] {
                fitted({.class_weight = {{0, 0.5}}, .sample_weight = at::ones({2})});
              }),
              HasSubstr("use one of them"));
  const Sequential model = line(0.1);
  model.fit(std::vector{std::tuple(x, y, at::tensor({0.5, 1.0}))}, {.verbose = Verbose::silent});
  EXPECT_NEAR(model.get_weights()[0].item<double>(), 0.95, 1e-6);
}

TEST(Fit, AddsRegularizationToTheLossOfEachBatch) {
  const Sequential model({layers::Dense({.units = 1,
                                         .use_bias = false,
                                         .kernel_initializer = initializers::Ones(),
                                         .kernel_regularizer = regularizers::L2(0.5)})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1}), .loss = losses::MeanSquaredError()});
  const History history = model.fit(column({0, 0}), column({2, 2}), {.verbose = Verbose::silent});
  EXPECT_NEAR(history.history.at("loss")[0], 4.5, 1e-6);
  EXPECT_NEAR(model.get_weights()[0].item<double>(), 0.9, 1e-6);
}

TEST(Fit, RefusesWhatCannotBeTrained) {
  const Sequential bare({layers::Dense({.units = 1})});
  const Tensor x = column({1});
  EXPECT_THAT(error_of([&] { bare.fit(x, x); }),
              HasSubstr("failed_precondition: sequential.fit: the model is not compiled"));
  bare.compile({.loss = losses::MeanSquaredError()});
  EXPECT_THAT(error_of([&] { bare.fit(x, x); }), HasSubstr("no optimizer"));
  const Sequential model = line(0.1);
  EXPECT_THAT(error_of([&] { model.fit(Pairs{}); }),
              HasSubstr("invalid_argument: sequential: the dataset has no batch"));
  EXPECT_THAT(error_of([&] { model.fit(Pairs{{x, x}}, {.batch_size = 2}); }), HasSubstr("belong to tensors"));
  EXPECT_THAT(error_of([&] { model.fit(x, column({1, 2})); }), HasSubstr("x has 1 rows, but y has shape (2, 1)"));
  EXPECT_THAT(error_of([&] { model.fit(x, x, {.batch_size = 0}); }), HasSubstr("must be positive"));
  EXPECT_THAT(error_of([&] {
                model.fit(Pairs{{at::ones({}), x}});
              }),
              HasSubstr("batch dimension; if the dataset gives"));
  const auto unbatched = data::from_tensor_slices(at::ones({4, 3}), at::ones({4, 1}));
  EXPECT_THAT(error_of([&] { model.fit(unbatched); }), HasSubstr("batch it: dataset.batch(n)"));
}

TEST(Evaluate, TrainsNothing) {
  const Sequential model = line(0.1);
  const Logs logs = model.evaluate(column({1, 2, 3}), column({0, 0, 0}), {.batch_size = 2, .verbose = Verbose::silent});
  EXPECT_NEAR(logs.at("loss"), 14.0 / 3, 1e-6);
  EXPECT_NEAR(logs.at("mae"), 2, 1e-6);
  EXPECT_EQ(model.get_weights()[0].item<double>(), 1);
}

TEST(Predict, ReturnsTheOutputOfEverySample) {
  const Sequential model = line(0.1);
  const Tensor x = at::randn({5, 1});
  EXPECT_TRUE(at::allclose(model.predict(x, {.batch_size = 2}), x));
  EXPECT_FALSE(model.predict(x).requires_grad());
}

// The numbers that the tf.distribute guide prints.
TEST(CustomLoop, GivesTheLossesOfTheGuide) {
  const Sequential model({layers::Dense({.units = 1,
                                         .kernel_initializer = initializers::Constant(-0.55429743),
                                         .kernel_regularizer = regularizers::L2(1e-4)})});
  const optimizers::SGD optimizer({.learning_rate = 0.01});
  const losses::BinaryCrossentropy loss_object({.from_logits = true, .reduction = Reduction::none});
  std::vector<double> losses;
  for (int step = 0; step < 50; ++step) {
    const Tensor values = loss_object(at::ones({20, 1}), model(at::ones({20, 1}), {.training = true}));
    const Tensor loss = values.mean() + model.losses()[0];
    optimizer.apply_gradients(torch::autograd::grad({loss}, model.trainable_variables()), model.trainable_variables());
    losses.push_back(loss.item<double>());
  }
  EXPECT_NEAR(losses[0], 1.0082505, 1e-6);
  EXPECT_NEAR(losses[1], 1.0002, 1e-5);
  EXPECT_NEAR(losses[2], 0.9922241, 1e-6);
  EXPECT_NEAR(losses[49], 0.69249296, 1e-6);
}

}  // namespace
}  // namespace tutti::keras
