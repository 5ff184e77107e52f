// What training programs do beside a plain fit.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <stdexcept>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint_manager.h"
#include "tutti/core/str.h"
#include "tutti/data/dataset.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/callbacks/csv_logger.h"
#include "tutti/keras/callbacks/early_stopping.h"
#include "tutti/keras/callbacks/lambda_callback.h"
#include "tutti/keras/callbacks/model_checkpoint.h"
#include "tutti/keras/callbacks/reduce_lr_on_plateau.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/rand_augment.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_crop.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_erasing.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_hue.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::CallOptions;
using layers::Dense;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kSilent = Verbose::silent;

Dense from_ones(int64_t units) { return Dense({.units = units, .kernel_initializer = initializers::Ones()}); }

Sequential linear(double rate = 0.05) {
  const Sequential model({from_ones(1)});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = rate}), .loss = losses::MeanSquaredError()});
  return model;
}

Tensor rows(int64_t count) { return at::arange(3 * count, at::kFloat).reshape({count, 3}) / (3.0 * count); }

std::vector<double> losses_of(const History& history) { return history.history.at("loss"); }

// Two inputs that meet, one of which is used twice.
class Siamese : public ModelImpl {
 public:
  Siamese() : ModelImpl("Siamese") {}
  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    const Tensor left = shared_(inputs[0], options), right = shared_(inputs[1], options);
    return {out_(at::cat({left, right, left - right}, 1), options), left};
  }

 private:
  Dense shared_ = add(from_ones(2));
  Dense out_ = add(from_ones(1));
};

TEST(SubclassedModel, OfSeveralInputsAndOutputsIsOnReplicasWhatItIsOnOneDevice) {
  std::vector<std::vector<double>> histories;
  for (const int replicas : {1, 3}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Model model = strategy.build([] { return Model(std::make_shared<Siamese>()); });
    model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.01}), .loss = losses::MeanSquaredError()});
    const Tensors x{rows(11), rows(11).flip(0)}, y{at::ones({11, 1}), at::zeros({11, 2})};
    histories.push_back(
        losses_of(model.fit(x, y, {.batch_size = 4, .epochs = 3, .verbose = kSilent, .shuffle = false})));
    EXPECT_EQ(model.predict_outputs(x, {.batch_size = 4})[0].sizes(), at::IntArrayRef({11, 1}));
    EXPECT_EQ(model.predict_outputs(x, {.batch_size = 4})[1].sizes(), at::IntArrayRef({11, 2}));
  }
  for (size_t epoch = 0; epoch < 3; ++epoch) EXPECT_NEAR(histories[1][epoch], histories[0][epoch], 1e-5);
}

TEST(Fit, CalledTwiceGoesOnWhereItWas) {
  const auto x = rows(8), y = at::ones({8, 1});
  const FitOptions once{.batch_size = 3, .epochs = 4, .verbose = kSilent, .shuffle = false};
  const Sequential together = linear(), apart = linear();
  const std::vector<double> all = losses_of(together.fit(x, y, once));
  FitOptions part = once;
  part.epochs = 2;
  std::vector<double> parts = losses_of(apart.fit(x, y, part));
  part.initial_epoch = 2, part.epochs = 4;
  const History rest = apart.fit(x, y, part);
  EXPECT_THAT(rest.epoch, ElementsAre(2, 3));
  for (const double loss : losses_of(rest)) parts.push_back(loss);
  EXPECT_EQ(parts, all);
  EXPECT_EQ(apart.model().optimizer().iterations(), 12);
  part.initial_epoch = 4;
  EXPECT_TRUE(apart.fit(x, y, part).history.empty()) << "nothing is left to do";
}

TEST(Fit, TakesTheLearningRateThatACallbackSetsInTheMiddleOfAnEpoch) {
  const Sequential model = linear(0.1);
  const auto freeze = callbacks::LambdaCallback(
      {.on_train_batch_end = [&](callbacks::TrainingState& state, int64_t batch, const RunningLogs&) {
        if (batch == 1) state.model.model().optimizer().set_learning_rate(0.0);
      }});
  std::vector<Tensor> after;
  const auto watch = callbacks::LambdaCallback(
      {.on_train_batch_end = [&](callbacks::TrainingState& state, int64_t, const RunningLogs&) {
        after.push_back(state.model.get_weights()[0]);
      }});
  model.fit(rows(8), at::zeros({8, 1}), {.batch_size = 2, .verbose = kSilent, .callbacks = {freeze, watch}});
  ASSERT_EQ(after.size(), 4U);
  EXPECT_FALSE(at::equal(after[0], after[1]));
  EXPECT_TRUE(at::equal(after[1], after[2]));
  EXPECT_TRUE(at::equal(after[2], after[3]));
}

TEST(Fit, AfterACallbackThrewMayBeCalledAgain) {
  for (const int replicas : {1, 2}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] { return linear(); });
    const auto fail = callbacks::LambdaCallback(
        {.on_train_batch_end = [](callbacks::TrainingState&, int64_t batch, const RunningLogs&) {
          if (batch == 1) throw std::runtime_error("the user's own");
        }});
    const auto train = [&](std::vector<callbacks::Callback> callbacks) {
      return model.fit(rows(8), at::ones({8, 1}), {.batch_size = 2, .verbose = kSilent, .callbacks = callbacks});
    };
    EXPECT_THROW(train({fail}), std::runtime_error);
    EXPECT_EQ(losses_of(train({})).size(), 1U);
  }
}

// The numbers of batches 0, 1, ... until one is to fail.
auto failing_batches(int64_t fails_at) {
  return data::range(5)
      .map([fails_at](const Tensor& i) {
        if (i.item<int64_t>() == fails_at) throw std::out_of_range("the generator's own");
        return std::tuple(at::full({3}, i.item<double>() / 10), at::ones({1}));
      })
      .batch(1);
}

TEST(Fit, PassesOnWhatAGeneratorThrowsAndMayBeCalledAgain) {
  for (const int replicas : {1, 3}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] { return linear(); });
    for (const bool ahead : {false, true}) {
      const auto failing = failing_batches(3), whole = failing_batches(9);
      int steps = 0;
      const auto count = callbacks::LambdaCallback(
          {.on_train_batch_end = [&](callbacks::TrainingState&, int64_t, const RunningLogs&) { ++steps; }});
      const FitOptions options{.verbose = kSilent, .callbacks = {count}};
      EXPECT_THROW(model.fit(ahead ? failing.prefetch(2) : failing, options), std::out_of_range);
      EXPECT_EQ(steps, 3);
      EXPECT_EQ(losses_of(model.fit(whole, options)).size(), 1U);
      EXPECT_EQ(steps, 8);
    }
  }
}

TEST(Fit, OfNoElementIsAnErrorAndOfOneIsAnEpoch) {
  for (const int replicas : {1, 3}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] { return linear(); });
    const auto some = [](int64_t count) {
      return data::from_tensor_slices(rows(4), at::ones({4, 1})).take(count).batch(2);
    };
    EXPECT_THAT(error_of([&] { model.fit(some(0), {.verbose = kSilent}); }), HasSubstr("the dataset has no batch"));
    EXPECT_THAT(error_of([&] { model.evaluate(some(0), {.verbose = kSilent}); }),
                HasSubstr("the dataset has no batch"));
    EXPECT_EQ(losses_of(model.fit(some(1), {.epochs = 2, .verbose = kSilent})).size(), 2U);
    EXPECT_EQ(model.predict(data::from_tensor_slices(std::tuple(rows(4))).take(1).batch(2)).size(0), 1);
    EXPECT_THAT(error_of([&] { model.fit(some(1), {.verbose = kSilent, .validation_data = some(0)}); }),
                HasSubstr("the dataset has no batch"));
    EXPECT_THAT(error_of([&] {
                  model.fit(at::zeros({0, 3}), at::zeros({0, 1}), {.verbose = kSilent});
                }),
                HasSubstr("no batch"));
  }
}

TEST(Fit, OfUnevenBatchesIsThatOfOneDevice) {
  std::vector<std::vector<double>> histories;
  std::vector<Tensor> kernels;
  for (const int replicas : {1, 3}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] { return linear(); });
    // Batches of 5, 1, 2 and 4.
    const auto batches = data::from_tensor_slices(rows(12), at::ones({12, 1})).batch(12).rebatch({5, 1, 2, 4});
    histories.push_back(losses_of(model.fit(batches, {.epochs = 3, .verbose = kSilent})));
    kernels.push_back(model.get_weights()[0]);
  }
  for (size_t epoch = 0; epoch < 3; ++epoch) EXPECT_NEAR(histories[1][epoch], histories[0][epoch], 1e-6);
  EXPECT_TRUE(at::allclose(kernels[1], kernels[0], 1e-5, 1e-6));
}

TEST(Fit, MayBeSavedInItsMiddle) {
  const TemporaryFolder folder;
  for (const int replicas : {1, 2}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] { return linear(); });
    CheckpointManager manager(Checkpoint({{"model", model}}), folder / str("ckpt", replicas), {.async = true});
    std::map<int64_t, Tensor> kernels;
    const auto save = callbacks::LambdaCallback(
        {.on_train_batch_end = [&](callbacks::TrainingState& state, int64_t batch, const RunningLogs&) {
          kernels[batch] = state.model.get_weights()[0].clone();
          state.model.save_weights(folder / str(batch, ".npz"));
          manager.save(batch + 1);
        }});
    model.fit(rows(8), at::ones({8, 1}), {.batch_size = 2, .verbose = kSilent, .callbacks = {save}, .shuffle = false});
    manager.wait();
    for (const int64_t batch : {0, 3}) {
      const Sequential other = linear();
      other.build({kUnknown, 3});
      other.load_weights(folder / str(batch, ".npz"));
      EXPECT_TRUE(at::equal(other.get_weights()[0], kernels[batch])) << batch;
      other.model().optimizer().build(other.trainable_variables());
      Checkpoint({{"model", other}}).restore(manager.directory() / str("ckpt-", batch + 1)).assert_consumed();
      EXPECT_TRUE(at::equal(other.get_weights()[0], kernels[batch])) << batch;
      EXPECT_EQ(other.model().optimizer().iterations(), batch + 1);
    }
  }
}

// An epoch of six batches, left after the fourth, gone on with in a new program.
TEST(OnBatch, ResumesInTheMiddleOfAnEpoch) {
  const TemporaryFolder folder;
  const auto batches = [] {
    return data::from_tensor_slices(rows(12), at::ones({12, 1})).shuffle(12, {.seed = 3}).batch(2);
  };
  const auto model_of = [] {
    const Sequential model({from_ones(1)});
    model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.1}), .loss = losses::MeanSquaredError()});
    model.build({kUnknown, 3});
    model.model().optimizer().build(model.trainable_variables());
    return model;
  };
  const auto train = [](const Sequential& model, auto& iterator, int64_t steps) {
    std::vector<double> seen;
    for (; steps > 0; --steps, ++iterator) {
      const auto& [x, y] = *iterator;
      seen.push_back(model.train_on_batch({.x = x, .y = y}).at("loss"));
    }
    return seen;
  };
  const Sequential whole = model_of();
  auto all = batches().begin();
  const std::vector<double> expected = train(whole, all, 6);
  {
    const Sequential model = model_of();
    auto iterator = batches().begin();
    train(model, iterator, 4);
    Checkpoint({{"model", model}, {"data", iterator}}).write(folder / "ckpt");
  }
  const Sequential model = model_of();
  auto iterator = batches().begin();
  Checkpoint({{"model", model}, {"data", iterator}}).restore(folder / "ckpt").assert_consumed();
  EXPECT_EQ(train(model, iterator, 2), (std::vector{expected[4], expected[5]}));
  EXPECT_TRUE(iterator == std::default_sentinel || iterator == batches().end());
  EXPECT_TRUE(at::equal(model.get_weights()[0], whole.get_weights()[0]));
}

TEST(Fit, OfFloat64KeepsItsDigits) {
  for (const int replicas : {1, 3}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] {
      const DTypePolicyGuard policy(DTypePolicy::float64);
      return linear();
    });
    const Tensor x = rows(7).to(at::kDouble), y = at::full({7, 1}, 1e-9, at::kDouble) + x.sum(1, true);
    const std::vector<double> loss = losses_of(model.fit(x, y, {.batch_size = 7, .verbose = kSilent}));
    EXPECT_NEAR(loss[0] / 1e-18, 1, 1e-3);
    EXPECT_EQ(model.predict(x).scalar_type(), at::kDouble);
    EXPECT_EQ(model.get_weights()[0].scalar_type(), at::kDouble);
  }
}

TEST(Fit, SaysWhatIsWrongWithLabels) {
  const auto error_with = [](const Tensor& y) {
    return error_of([&] { linear().fit(rows(4), y, {.verbose = kSilent}); });
  };
  EXPECT_THAT(error_with(at::ones({4, 2})), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_with(at::ones({3, 1})), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_with(at::ones({4, 1, 1})), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_with(at::ones({})), HasSubstr("invalid_argument"));
}

// Gives the loss of each epoch in turn.
callbacks::Callback scripted(std::vector<double> values) {
  return callbacks::LambdaCallback({.on_epoch_end = [values](callbacks::TrainingState&, int64_t epoch, Logs& logs) {
    logs["loss"] = values.at(static_cast<size_t>(epoch));
  }});
}

TEST(Monitors, TakeWhatIsNoNumberForNoImprovement) {
  const CollectedWarnings warnings;
  const TemporaryFolder folder;
  const callbacks::EarlyStopping stopping({.monitor = "loss", .patience = 3, .restore_best_weights = true});
  const callbacks::ModelCheckpoint best({.filepath = folder / "best.npz", .monitor = "loss", .save_best_only = true});
  const callbacks::ModelCheckpoint each(
      {.filepath = folder / "{epoch}.npz", .monitor = "loss", .save_best_only = true});
  linear().fit(rows(4), at::ones({4, 1}),
               {.epochs = 5,
                .verbose = kSilent,
                .callbacks = {scripted({NAN, 3, 2, NAN, 2.5}), stopping, best, each,
                              callbacks::CSVLogger({.filename = folder / "log.csv"})}});
  EXPECT_EQ(stopping.best_epoch(), 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "1.npz"));
  EXPECT_TRUE(std::filesystem::exists(folder / "3.npz"));
  EXPECT_TRUE(std::filesystem::exists(folder / "best.npz"));
}

TEST(Monitors, ReduceTheRateWhereNothingIsANumber) {
  const CollectedWarnings warnings;
  const Sequential model = linear(1.0);
  const callbacks::ReduceLROnPlateau reduce({.monitor = "loss", .factor = 0.5, .patience = 1});
  model.fit(rows(4), at::ones({4, 1}),
            {.epochs = 4, .verbose = kSilent, .callbacks = {scripted({NAN, NAN, NAN, NAN}), reduce}});
  EXPECT_LE(model.model().optimizer().learning_rate(), 0.25);
}

TEST(Augmentation, OfASeedIsTheSameOnAnyNumberOfReplicas) {
  std::vector<std::vector<double>> histories;
  for (const int replicas : {1, 2, 3}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] {
      const Sequential made({layers::RandomHue({.factor = 0.7, .value_range = {0, 1}, .seed = 1}),
                             layers::RandomErasing({.scale = {0.1, 0.5}, .value_range = {0, 1}, .seed = 2}),
                             layers::RandomCrop({.height = 4, .width = 5, .seed = 3}),
                             layers::RandAugment({.value_range = {0, 1}, .seed = 4}), layers::Flatten(), from_ones(1)});
      made.compile({.optimizer = optimizers::SGD({.learning_rate = 1e-4}), .loss = losses::MeanSquaredError()});
      return made;
    });
    const Tensor x = at::arange(10 * 6 * 6 * 3, at::kFloat).remainder(37).reshape({10, 6, 6, 3}) / 37;
    // The last batch has two images: a replica of three has none.
    histories.push_back(losses_of(
        model.fit(x, at::ones({10, 1}), {.batch_size = 4, .epochs = 3, .verbose = kSilent, .shuffle = false})));
  }
  for (const size_t replicas : {1, 2})
    for (size_t epoch = 0; epoch < 3; ++epoch)
      EXPECT_NEAR(histories[replicas][epoch] / histories[0][epoch], 1, 1e-5) << replicas + 1 << ' ' << epoch;
}

}  // namespace
}  // namespace tutti::keras
