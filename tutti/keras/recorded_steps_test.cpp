// Steps that fit, evaluate and predict replay give the bits of those that run eagerly, whatever changes between them.
#include "tutti/keras/recorded_steps.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/callbacks/lambda_callback.h"
#include "tutti/keras/callbacks/learning_rate_scheduler.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/core/lambda.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/optimizers/schedules.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras::recorded_steps_test {
namespace {

using layers::BatchNormalization;
using layers::Dense;
using layers::Dropout;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Trained {
  History history;
  Logs evaluation;
  Tensor predictions;
  std::vector<Tensor> weights;
  std::vector<std::string> warnings;
};

struct Case {
  std::function<std::vector<layers::Layer>()> layers;
  std::function<optimizers::Optimizer()> optimizer = [] { return optimizers::SGD({.learning_rate = 0.1}); };
  int replicas = 1;
  FitOptions fit = {};
  DTypePolicy policy = DTypePolicy::of_weights;
  int64_t steps_per_execution = 1;
};

// 42 samples in batches of 8: the last batch is short.
Trained train(const Case& test, bool eagerly, const Tensor& x) {
  Trained trained;
  const CollectedWarnings warnings;
  set_random_seed(3);
  MirroredStrategy strategy({.devices = configure_logical_cpus(test.replicas)});
  const DTypePolicyGuard policy(test.policy);
  const Tensor y = at::randint(3, {x.size(0)}, at::kLong);
  const Sequential model = strategy.build([&] {
    const Sequential sequential(test.layers());
    sequential.compile({.optimizer = test.optimizer(),
                        .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                        .metrics = {metrics::SparseCategoricalAccuracy()},
                        .steps_per_execution = test.steps_per_execution,
                        .run_eagerly = eagerly});
    return sequential;
  });
  FitOptions options = test.fit;
  options.epochs = 3;
  options.batch_size = 8;
  options.verbose = Verbose::silent;
  options.validation_split = 0.2;
  trained.history = model.fit(x, y, options);
  trained.evaluation = model.evaluate(x, y, {.batch_size = 8, .verbose = Verbose::silent});
  trained.predictions = model.predict(x, {.batch_size = 8});
  trained.weights = model.get_weights();
  trained.warnings = warnings.lines();
  const auto steps = model.model().recorded_steps();
  EXPECT_EQ(steps == nullptr, eagerly);
  EXPECT_TRUE(eagerly || steps->tracing_count() > 0);
  return trained;
}

void expect_same_bits(const Case& test, const Tensor& x) {
  const Trained recorded = train(test, false, x), eager = train(test, true, x);
  EXPECT_EQ(recorded.history.history, eager.history.history);
  EXPECT_EQ(recorded.evaluation, eager.evaluation);
  EXPECT_TRUE(at::equal(recorded.predictions, eager.predictions));
  for (size_t i = 0; i < eager.weights.size(); ++i)
    EXPECT_TRUE(at::equal(recorded.weights[i], eager.weights[i])) << "weight " << i;
  EXPECT_EQ(recorded.warnings, eager.warnings);
}

std::vector<layers::Layer> dense_layers() {
  return {Dense({.units = 6, .activation = activations::relu, .kernel_regularizer = regularizers::L2(0.01)}),
          BatchNormalization(), Dropout({.rate = 0.3}), Dense({.units = 3})};
}

Tensor features() { return at::randn({42, 5}, make_generator(1, at::kCPU)); }

TEST(RecordedSteps, GiveEagersBitsOnAnyNumberOfReplicas) {
  for (const int replicas : {1, 2, 3}) {
    SCOPED_TRACE(replicas);
    expect_same_bits({.layers = dense_layers, .replicas = replicas}, features());
  }
}

TEST(RecordedSteps, ApplyWhatOptimizersDoInEachStep) {
  const auto schedule =
      optimizers::schedules::ExponentialDecay({.initial_learning_rate = 0.1, .decay_steps = 2, .decay_rate = 0.7});
  const std::vector<std::function<optimizers::Optimizer()>> all = {
      [] { return optimizers::Adam({.learning_rate = 0.01, .clipnorm = 0.1}); },
      [] { return optimizers::Adam({.learning_rate = 0.01, .global_clipnorm = 0.1}); },
      [] { return optimizers::SGD({.learning_rate = 0.1, .momentum = 0.9, .use_ema = true}); },
      [] { return optimizers::SGD({.learning_rate = 0.1, .gradient_accumulation_steps = 3}); },
      [] { return optimizers::LossScaleOptimizer(optimizers::SGD(), {.initial_scale = 4, .dynamic_growth_steps = 2}); },
      [&] { return optimizers::SGD({.learning_rate = schedule}); }};
  for (size_t i = 0; i < all.size(); ++i)
    for (const int replicas : {1, 2}) {
      SCOPED_TRACE(testing::Message() << i << " on " << replicas);
      expect_same_bits({.layers = dense_layers, .optimizer = all[i], .replicas = replicas}, features());
    }
}

TEST(RecordedSteps, GiveEagersBitsInMixedPrecision) {
  for (const auto policy : {DTypePolicy::mixed_bfloat16, DTypePolicy::mixed_float16, DTypePolicy::float64})
    expect_same_bits({.layers = dense_layers, .policy = policy}, features());
}

TEST(RecordedSteps, GiveEagersBitsOfConvolutions) {
  const auto layers = []() -> std::vector<layers::Layer> {
    return {layers::Conv2D({.filters = 4, .activation = activations::relu}), layers::MaxPooling2D(), layers::Flatten(),
            Dense({.units = 3})};
  };
  for (const int replicas : {1, 2})
    expect_same_bits({.layers = layers, .replicas = replicas}, at::randn({42, 8, 8, 1}, make_generator(1, at::kCPU)));
}

TEST(RecordedSteps, GiveEagersBitsOfRecurrence) {
  const auto layers = []() -> std::vector<layers::Layer> {
    return {layers::Embedding({.input_dim = 9, .output_dim = 4, .mask_zero = true}), layers::LSTM({.units = 5}),
            Dense({.units = 3})};
  };
  for (const int replicas : {1, 2})
    expect_same_bits({.layers = layers, .replicas = replicas},
                     at::randint(9, {42, 6}, make_generator(1, at::kCPU), at::kLong));
}

TEST(RecordedSteps, TakeWeightsOfSamplesAndClasses) {
  Case test{.layers = dense_layers};
  test.fit.class_weight = {{0, 2.0}, {2, 0.5}};
  expect_same_bits(test, features());
  test.fit.class_weight = {};
  test.fit.sample_weight = at::arange(42).to(at::kFloat) / 42;
  expect_same_bits(test, features());
}

TEST(RecordedSteps, SeeALearningRateThatACallbackChanges) {
  Case test{.layers = dense_layers};
  test.fit.callbacks = {callbacks::LearningRateScheduler([](int64_t epoch, double) { return 0.3 / (1.0 + epoch); }),
                        callbacks::LambdaCallback(
                            {.on_train_batch_end = [](callbacks::TrainingState& state, int64_t, const RunningLogs&) {
                              const auto& optimizer = state.model.model().optimizer();
                              optimizer.set_learning_rate(optimizer.learning_rate() * 0.9);
                            }})};
  expect_same_bits(test, features());
}

TEST(RecordedSteps, GiveEagersBitsInExecutionsOfSeveralSteps) {
  expect_same_bits({.layers = dense_layers, .steps_per_execution = 4}, features());
}

// --- What is changed between steps.

struct Fitted {
  Sequential model;
  Tensor x = at::ones({8, 2}), y = at::ones({8, 1});

  explicit Fitted(Sequential sequential) : model(std::move(sequential)) {
    model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.01}),
                   .loss = losses::MeanSquaredError(),
                   .run_eagerly = false});
    step(5);
  }
  void step(int times = 1) const {
    for (int i = 0; i < times; ++i) model.train_on_batch({.x = x, .y = y});
  }
};

TEST(RecordedSteps, SeeThatALayerIsFrozenAndThawed) {
  const Fitted fitted(Sequential({Dense({.units = 3}), Dense({.units = 1})}));
  const layers::Layer first = fitted.model.layers()[0];
  const auto kernel = [&] { return first.get_weights()[0]; };
  for (int round = 0; round < 2; ++round) {
    first.set_trainable(false);
    const Tensor before = kernel();
    fitted.step(5);
    EXPECT_TRUE(at::equal(kernel(), before));
    first.set_trainable(true);
    fitted.step(5);
    EXPECT_FALSE(at::equal(kernel(), before));
  }
}

TEST(RecordedSteps, SeeAnotherOptimizer) {
  const Fitted fitted(Sequential({Dense({.units = 1})}));
  fitted.model.compile(
      {.optimizer = optimizers::SGD({.learning_rate = 0.0}), .loss = losses::MeanSquaredError(), .run_eagerly = false});
  const Tensor before = fitted.model.get_weights()[0];
  fitted.step(5);
  EXPECT_TRUE(at::equal(fitted.model.get_weights()[0], before));
}

TEST(RecordedSteps, SeeWeightsThatAreSet) {
  const Fitted fitted(Sequential({Dense({.units = 1})}));
  fitted.model.predict(fitted.x);
  for (int i = 0; i < 4; ++i) {
    fitted.model.set_weights({at::ones({2, 1}) * i, at::ones({1})});
    EXPECT_TRUE(at::equal(fitted.model.predict(fitted.x), at::ones({8, 1}) * (2 * i + 1)));
  }
}

TEST(RecordedSteps, RefuseALabelOutsideInEachStep) {
  const Sequential model({Dense({.units = 3})});
  model.compile({.optimizer = optimizers::SGD(),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .run_eagerly = false});
  const Tensor y = at::zeros({4}, at::kLong);
  for (int i = 0; i < 5; ++i) {
    model.train_on_batch({.x = at::ones({4, 2}), .y = y});
    EXPECT_THAT(([&] {
                  model.train_on_batch({.x = at::ones({4, 2}), .y = y + 3});
                }),
                testing::ThrowsMessage<std::exception>(testing::AnyOf(
                    HasSubstr("a label lies outside of [0, 3): 3"),
                    HasSubstr("Target 3 is out of bounds. (in aten::nll_loss_forward"))));  // of a replay
  }
}

// --- Steps of one's own.

// Shrinks its output; `look` sees the loss.
class Watched : public ModelImpl {
 public:
  using Look = std::function<Tensor(const Tensor& loss)>;
  explicit Watched(Look look) : ModelImpl("Watched"), look_(std::move(look)) {}
  Tensor call(const Tensor& x, const layers::CallOptions&) const override { return dense_(x); }
  StepShare train_step(const Batch& shard, const GlobalBatch& global) const override {
    const Tensor loss = look_(predictions(shard, {.training = true})[0].tensor.square().sum() / global.size);
    const std::vector<Tensor> variables = trainable_variables();
    sgd_.apply_gradients(gradients(loss, variables), variables);
    return {.losses = {loss.detach()}};
  }

 private:
  Look look_;
  optimizers::SGD sgd_{{.learning_rate = 0.1}};
  Dense dense_ = add(Dense({.units = 2, .kernel_initializer = initializers::Ones()}));
};

std::vector<double> losses_of(const Watched::Look& look, bool eagerly, std::vector<std::string>* lines = nullptr) {
  const CollectedWarnings warnings;
  const Model model(std::make_shared<Watched>(look));
  model.compile({.run_eagerly = eagerly});
  const auto losses =
      model.fit(at::ones({8, 3}), Tensor(), {.epochs = 8, .verbose = Verbose::silent}).history.at("loss");
  if (lines) *lines = warnings.lines();
  return losses;
}

TEST(RecordedSteps, OfOnesOwnAreReplayed) {
  int calls = 0;
  std::vector<std::string> lines;
  const Watched::Look look = [&](const Tensor& loss) { return ++calls, loss * 2; };
  const auto losses = losses_of(look, false, &lines);
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(lines, IsEmpty());
  EXPECT_EQ(losses, losses_of(look, true));
  EXPECT_EQ(calls, 10);
}

TEST(RecordedSteps, ThatReadAValueRunEagerlyAndSaySoOnce) {
  for (const auto& [look, reason] : std::vector<std::pair<Watched::Look, std::string>>{
           {[](const Tensor& loss) { return loss.item<float>() > 2 ? loss : loss / 3; }, "reads a number"},
           {[](const Tensor& loss) { return loss / (*loss.detach().data_ptr<float>() + 1); },
            "the memory of a tensor"}}) {
    std::vector<std::string> lines;
    EXPECT_EQ(losses_of(look, false, &lines), losses_of(look, true));
    EXPECT_THAT(lines, ElementsAre(testing::AllOf(HasSubstr(reason), HasSubstr("Such steps run eagerly"))));
  }
}

TEST(RecordedSteps, ThatLookAtTheOptimizersCountRunEagerly) {
  const optimizers::SGD other;
  std::vector<std::string> lines;
  const Watched::Look look = [&](const Tensor& loss) { return loss * static_cast<double>(1 + other.iterations()); };
  EXPECT_EQ(losses_of(look, false, &lines), losses_of(look, true));
  EXPECT_THAT(lines, ElementsAre(HasSubstr("SGD.iterations: read while a function is recorded")));
}

TEST(RecordedSteps, RunEagerlyWhereTheModelIsCompiledSo) {
  int calls = 0;
  std::vector<std::string> lines;
  losses_of([&](const Tensor& loss) { return ++calls, loss / (1 + loss.item<float>()); }, true, &lines);
  EXPECT_EQ(calls, 8);
  EXPECT_THAT(lines, IsEmpty());
}

TEST(RecordedSteps, UpdateMetricsOfTheirOwn) {
  metrics::MeanAbsoluteError metric;
  const Watched::Look look = [&](const Tensor& loss) {
    metric.update_state(at::zeros({1}), loss.detach().reshape({1}));
    return loss;
  };
  double seen[2] = {};
  for (const bool eagerly : {false, true}) {
    std::vector<std::string> lines;
    metric.reset_state();
    losses_of(look, eagerly, &lines);
    seen[eagerly] = metric.result().item<double>();
    EXPECT_THAT(lines, IsEmpty());
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(RecordedSteps, AreFetchedBeforeTheFirstOfAnExecutionRuns) {
  std::vector<int64_t> batches;
  std::vector<std::string> order;
  const Sequential model({Dense({.units = 1})});
  model.compile({.optimizer = optimizers::SGD(),
                 .loss = losses::MeanSquaredError(),
                 .steps_per_execution = 2,
                 .run_eagerly = false});
  const auto data = data::from_tensor_slices(at::ones({10, 2}), at::ones({10, 1}))
                        .map([&](const Tensor& x, const Tensor& y) {
                          order.emplace_back("fetched");
                          return std::tuple(x, y);
                        })
                        .batch(2);
  model.fit(data, {.verbose = Verbose::silent,
                   .callbacks = {callbacks::LambdaCallback(
                       {.on_train_batch_end = [&](callbacks::TrainingState&, int64_t batch, const RunningLogs&) {
                         batches.push_back(batch);
                         EXPECT_EQ(std::ssize(order), std::min<int64_t>(2 * (batch + 1), 10));
                       }})}});
  EXPECT_THAT(batches, ElementsAre(1, 3, 4));
}

}  // namespace
}  // namespace tutti::keras::recorded_steps_test
