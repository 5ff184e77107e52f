// Steps that cannot be recorded, or not for long: they run eagerly, which is said once, and each of their effects
// happens once. What is compared are all bits that a program can see.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/masked_select.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>

#include <ostream>
#include <stdexcept>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/core/str.h"
#include "tutti/data/dataset.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/per_replica_slot.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/keras/callbacks/lambda_callback.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/lambda.h"
#include "tutti/keras/layers/core/masking.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/normalization/spectral_normalization.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_flip.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/recorded_steps.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras::recorded_fallback_test {
namespace {

using callbacks::TrainingState;
using layers::BatchNormalization;
using layers::Dense;
using layers::Dropout;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Bits = std::vector<Tensor>;

void expect_equal(const Bits& recorded, const Bits& eager) {
  ASSERT_EQ(recorded.size(), eager.size());
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(at::equal(recorded[i], eager[i])) << "tensor " << i;
}

// --- Steps of a model's own, with effects before and after what cannot be recorded.

enum class Place { forward, before_update, after_update };

struct Obstacle {
  const char* name;
  const char* reason;  // in the warning
  // Gives back the value that it was given. `step` counts from 0.
  std::function<Tensor(const Tensor& value, int64_t step)> meet;

  friend std::ostream& operator<<(std::ostream& out, const Obstacle& obstacle) { return out << obstacle.name; }
};

class Obstructed : public ModelImpl {
 public:
  Obstructed(const Obstacle& obstacle, Place place, int64_t first)
      : ModelImpl("Obstructed"), obstacle_(obstacle), place_(place), first_(first) {}

  Tensor call(const Tensor& x, const layers::CallOptions& options) const override {
    return out_(dropout_(normal_(hidden_(x, options), options), options), options);
  }

  StepShare train_step(const Batch& shard, const GlobalBatch& global) const override {
    const int64_t step = (*steps_)++;
    const Tensor noise = at::zeros({1}).uniform_();
    const Tensor output = meet(Place::forward, step, predictions(shard, {.training = true})[0].tensor);
    const Tensor loss = meet(Place::before_update, step, output.square().sum() / global.size) + noise.sum() * 0.01;
    if (get_replica_context().replica_id_in_sync_group() == 0)
      metric_.update_state(at::zeros({1}), loss.detach().reshape({1}));
    const std::vector<Tensor> variables = trainable_variables();
    adam_.apply_gradients(gradients(loss, variables), variables);
    return {.losses = {meet(Place::after_update, step, loss.detach())}};
  }

  Bits state() const {
    Bits all;
    for (const layers::Weight& weight : weights()) all.push_back(gather(weight.value).clone());
    for (const Tensor& tensor : adam_.impl()->state()) all.push_back(gather(tensor).clone());
    all.push_back(metric_.result());
    all.push_back(at::ones({}) * adam_.iterations());
    return all;
  }

 private:
  Tensor meet(Place place, int64_t step, const Tensor& value) const {
    return place == place_ && step >= first_ ? obstacle_.meet(value, step) : value;
  }

  const Obstacle obstacle_;
  const Place place_;
  const int64_t first_;
  mutable PerReplicaSlot<int64_t> steps_;
  metrics::MeanAbsoluteError metric_;
  optimizers::Adam adam_{{.learning_rate = 0.05}};
  Dense hidden_ = add(Dense({.units = 5, .activation = activations::tanh}));
  BatchNormalization normal_ = add(BatchNormalization());
  Dropout dropout_ = add(Dropout({.rate = 0.3}));
  Dense out_ = add(Dense({.units = 2}));
};

// 7 batches an epoch, the last of them short.
Bits train(const Obstacle& obstacle, Place place, int64_t first, int replicas, bool eagerly,
           std::vector<std::string>& warnings) {
  const CollectedWarnings collected;
  set_random_seed(5);
  MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
  std::shared_ptr<Obstructed> impl;
  const Model model = strategy.build([&] {
    impl = std::make_shared<Obstructed>(obstacle, place, first);
    return Model(impl);
  });
  model.compile({.run_eagerly = eagerly});
  const History history =
      model.fit(at::randn({26, 3}), Tensor(), {.batch_size = 4, .epochs = 2, .verbose = Verbose::silent});
  Bits bits = impl->state();
  for (const double loss : history.history.at("loss")) bits.push_back(at::ones({}, at::kDouble) * loss);
  bits.push_back(at::rand({3}));
  warnings = collected.lines();
  return bits;
}

std::vector<Obstacle> obstacles() {
  const auto kept = std::make_shared<Tensor>();
  return {
      {"item", "reads a number out of a tensor",
       [](const Tensor& value, int64_t) { return value * (value.detach().sum().item<float>() > 1 ? 0.5 : 2.0); }},
      {"pointer", "reads or writes the memory of a tensor",
       [](const Tensor& value, int64_t) {
         const Tensor copy = value.detach() * 1;
         return value + *copy.data_ptr<float>() * 0.1;
       }},
      {"shape", "depends on the values of a tensor",
       [](const Tensor& value, int64_t) { return value + at::masked_select(value, value > 0).sum() * 0.1; }},
      {"number", "differ",
       [](const Tensor& value, int64_t step) { return value * (1 + 0.1 * static_cast<double>(step)); }},
      {"calls", "differ", [](const Tensor& value, int64_t step) { return step % 2 ? value.sin() : value; }},
      {"kept", "",
       [kept](const Tensor& value, int64_t step) {
         const Tensor before = step % 7 < 2 ? at::zeros({}) : *kept;
         *kept = value.detach().sum() * 0.1;
         return value + before;
       }},
  };
}

using Case = std::tuple<Obstacle, Place, int>;
class RecordedObstacle : public testing::TestWithParam<Case> {};

// From the first step on, where it would be recorded, and from the one that is compared with it on.
TEST_P(RecordedObstacle, HasEachEffectOnceAndIsSaidOnce) {
  const auto& [obstacle, place, replicas] = GetParam();
  if (std::string(obstacle.name) == "kept" && replicas > 1) return;  // a race of the model's own
  for (const int64_t first : {0, 1}) {
    SCOPED_TRACE(first);
    std::vector<std::string> lines, none;
    const Bits recorded = train(obstacle, place, first, replicas, false, lines);
    expect_equal(recorded, train(obstacle, place, first, replicas, true, none));
    EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("obstructed.fit: "), HasSubstr(obstacle.reason),
                                         HasSubstr("run_eagerly = true"))));
    EXPECT_THAT(none, IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(, RecordedObstacle,
                         testing::Combine(testing::ValuesIn(obstacles()),
                                          testing::Values(Place::forward, Place::before_update, Place::after_update),
                                          testing::Values(1, 2)),
                         [](const auto& info) {
                           return str(std::get<0>(info.param).name, static_cast<int>(std::get<1>(info.param)), "on",
                                      std::get<2>(info.param));
                         });

// --- Whole models.

struct Trained {
  Bits bits;
  std::vector<std::string> warnings;
};

// Runs a program with a model of its own twice.
void expect_same(const std::function<Bits(bool eagerly)>& program,
                 const testing::Matcher<std::vector<std::string>>& said) {
  const auto run = [&](bool eagerly) {
    const CollectedWarnings collected;
    set_random_seed(11);
    Bits bits = program(eagerly);
    bits.push_back(at::rand({2}));
    return Trained{std::move(bits), collected.lines()};
  };
  const Trained recorded = run(false), eager = run(true);
  expect_equal(recorded.bits, eager.bits);
  EXPECT_THAT(recorded.warnings, said);
  EXPECT_THAT(eager.warnings, IsEmpty());
}

Sequential normalized_model(bool eagerly, int64_t units = 1) {
  const Sequential model({Dense({.units = 4, .activation = activations::relu}), BatchNormalization(),
                          Dropout({.rate = 0.2}), Dense({.units = units})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05, .momentum = 0.9}),
                 .loss = losses::MeanSquaredError(),
                 .run_eagerly = eagerly});
  return model;
}

FitOptions quiet(int64_t epochs = 3) { return {.batch_size = 4, .epochs = epochs, .verbose = Verbose::silent}; }

TEST(RecordedTraining, OfManyBatchSizesIsBoundedAndSaysSoOnce) {
  int64_t tracings = 0;
  expect_same(
      [&](bool eagerly) {
        const Sequential model = normalized_model(eagerly);
        for (int round = 0; round < 3; ++round)
          for (int64_t size = 2; size < 42; ++size)
            model.train_on_batch({.x = at::ones({size, 3}) * size, .y = at::ones({size, 1})});
        if (!eagerly) tracings = model.model().recorded_steps()->tracing_count();
        return model.get_weights();
      },
      ElementsAre(AllOf(HasSubstr("batches of more than 16 shapes"), HasSubstr("run_eagerly = true"))));
  EXPECT_EQ(tracings, 2 * 16);
}

TEST(RecordedTraining, GoesOnInASecondFitAndAfterAnEvaluation) {
  expect_same(
      [&](bool eagerly) {
        const Sequential model = normalized_model(eagerly);
        const Tensor x = at::rand({18, 3}), y = x.sum(1, true);
        Bits bits{at::ones({}, at::kDouble) * model.evaluate(x, y, {.verbose = Verbose::silent}).at("loss")};
        for (int round = 0; round < 2; ++round) {
          model.fit(x, y, quiet());
          bits.push_back(model.predict(x));
        }
        const int64_t tracings = eagerly ? 0 : model.model().recorded_steps()->tracing_count();
        model.fit(x, y, quiet());
        if (!eagerly) {
          EXPECT_EQ(model.model().recorded_steps()->tracing_count(), tracings);
        }
        for (const Tensor& weight : model.get_weights()) bits.push_back(weight);
        return bits;
      },
      IsEmpty());
}

TEST(RecordedTraining, SeesWeightsThatAreSetAndLoadedBetweenEpochs) {
  const TemporaryFolder folder;
  expect_same(
      [&](bool eagerly) {
        const Sequential model = normalized_model(eagerly);
        model.build({kUnknown, 3});
        model.save_weights(folder.path() / "first.safetensors");
        const callbacks::LambdaCallback change({.on_epoch_begin = [&](TrainingState&, int64_t epoch) {
          if (epoch == 2) model.load_weights(folder.path() / "first.safetensors");
          if (epoch != 4) return;
          std::vector<Tensor> weights = model.get_weights();
          for (Tensor& weight : weights) weight.mul_(0.5);
          model.set_weights(weights);
        }});
        FitOptions options = quiet(6);
        options.callbacks = {change};
        const Tensor x = at::rand({18, 3});
        model.fit(x, x.sum(1, true), options);
        return model.get_weights();
      },
      IsEmpty());
}

// As those of a generator and a discriminator, which are frozen in turn.
TEST(RecordedTraining, OfTwoModelsThatShareLayersSeesWhatTheOtherDoes) {
  expect_same(
      [](bool eagerly) {
        const Dense generator({.units = 3}), discriminator({.units = 1});
        const Sequential alone({discriminator}), both({generator, discriminator});
        for (const Sequential& model : {alone, both})
          model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05}),
                         .loss = losses::MeanSquaredError(),
                         .run_eagerly = eagerly});
        Bits bits;
        for (int step = 0; step < 6; ++step) {
          discriminator.set_trainable(true);
          alone.train_on_batch({.x = at::rand({4, 3}), .y = at::ones({4, 1})});
          discriminator.set_trainable(false);
          both.train_on_batch({.x = at::rand({4, 2}), .y = at::zeros({4, 1})});
          bits.push_back(both.predict(at::ones({2, 2})));
        }
        return bits;
      },
      IsEmpty());
}

TEST(RecordedTraining, SeesLayersFrozenInTheMiddleOfAnEpoch) {
  expect_same(
      [](bool eagerly) {
        const Sequential model = normalized_model(eagerly);
        FitOptions options = quiet(2);
        options.callbacks = {
            callbacks::LambdaCallback({.on_train_batch_begin = [](TrainingState& state, int64_t batch) {
              for (const layers::Layer& layer : state.model.layers()) layer.set_trainable(batch < 3 || batch > 5);
              state.model.layers().back().set_trainable(true);
            }})};
        const Tensor x = at::rand({34, 3});
        model.fit(x, x.sum(1, true), options);
        return model.get_weights();
      },
      IsEmpty());
}

TEST(RecordedTraining, DrawsWhatSeedsSayThatAreSetMeanwhile) {
  for (const int replicas : {1, 2}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    expect_same(
        [&](bool eagerly) {
          const Sequential model = strategy.build([&] { return normalized_model(eagerly); });
          FitOptions options = quiet(6);
          options.callbacks = {callbacks::LambdaCallback(
              {.on_epoch_begin = [](TrainingState&, int64_t epoch) { set_random_seed(epoch % 2); }})};
          const Tensor x = at::ones({12, 3});
          model.fit(x, x.sum(1, true), options);
          return model.get_weights();
        },
        IsEmpty());
  }
}

// LibTorch rounds long sums otherwise in other numbers of threads.
TEST(RecordedTraining, ComputesInAsManyThreadsAsThereAreMeanwhile) {
  const int threads = at::get_num_threads();
  for (const int replicas : {1, 2}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    expect_same(
        [&](bool eagerly) {
          const Sequential model = strategy.build([&] {
            const auto sum = [](const Tensor& x) { return x.sum().reshape({1, 1}).expand({x.size(0), 1}); };
            const Sequential sums({layers::Lambda({.function = sum}), Dense({.units = 1})});
            sums.compile({.optimizer = optimizers::SGD({.learning_rate = 1e-12}),
                          .loss = losses::MeanSquaredError(),
                          .run_eagerly = eagerly});
            return sums;
          });
          const Tensor x = at::randn({2, 300000}), y = at::ones({2, 1});  // whose sums round much off
          Bits bits;
          for (const int now : {1, 1, 1, 2, 2, 2, 1, 3, 3, 3}) {
            at::set_num_threads(now);
            bits.push_back(at::ones({}, at::kDouble) * model.train_on_batch({.x = x, .y = y}).at("loss"));
          }
          at::set_num_threads(threads);
          return bits;
        },
        IsEmpty());
  }
}

TEST(RecordedTraining, LeavesModulesOfLibTorchInTheModeOfTheLastStep) {
  for (const bool validates : {false, true})
    expect_same(
        [&](bool eagerly) {
          const torch::nn::Dropout dropout(0.5);
          const Sequential model({dropout, Dense({.units = 1})});
          model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError(), .run_eagerly = eagerly});
          const Tensor x = at::rand({32, 3}), y = at::rand({32, 1});
          model.evaluate(x, y, {.batch_size = 4, .verbose = Verbose::silent});
          FitOptions options = quiet();
          if (validates) options.validation_data = Batches::from_tensors({x, y}, {.batch_size = 4});
          model.fit(x, y, options);
          EXPECT_EQ(dropout->is_training(), !validates);
          return model.get_weights();
        },
        IsEmpty());
}

TEST(RecordedTraining, TakesEachElementOfItsDataOnce) {
  for (const int64_t steps_per_execution : {1, 3}) {
    int64_t taken[2] = {};
    expect_same(
        [&](bool eagerly) {
          const Sequential model = normalized_model(eagerly);
          model.compile({.optimizer = optimizers::SGD(),
                         .loss = losses::MeanSquaredError(),
                         .steps_per_execution = steps_per_execution,
                         .run_eagerly = eagerly});
          const auto pairs = data::from_tensor_slices(at::rand({22, 3}), at::rand({22, 1}))
                                 .map([&](const Tensor& x, const Tensor& y) {
                                   ++taken[eagerly];
                                   return std::tuple(x, y);
                                 })
                                 .batch(4);
          model.fit(pairs, {.epochs = 3, .verbose = Verbose::silent});
          return model.get_weights();
        },
        IsEmpty());
    EXPECT_EQ(taken[0], 66);
    EXPECT_EQ(taken[1], 66);
  }
}

// The layers of docs/keras.md that no step can be recorded with.
TEST(RecordedTraining, OfLayersThatCannotBeRecordedRunsEagerlyAndSaysSoOnce) {
  using Layers = std::vector<layers::Layer>;
  struct Case {
    std::function<Layers()> layers;
    Shape sample;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {[] {
         return Layers{layers::Masking(), BatchNormalization(), layers::GlobalAveragePooling1D()};
       },
       {4, 3},
       "depends on the values of a tensor"},
      {[] { return Layers{layers::GRU({.units = 3, .stateful = true})}; }, {4, 3}, "differ"},
      {[] { return Layers{layers::SpectralNormalization(Dense({.units = 3}))}; },
       {3},
       "writes in place to a value that all share"},
      {[] {
         return Layers{layers::RandomFlip({.seed = 3}), layers::Flatten()};
       },
       {4, 4, 2},
       "counts its calls"},
  };
  for (const Case& test : cases)
    for (const int replicas : {1, 2}) {
      SCOPED_TRACE(str(test.reason, " on ", replicas));
      MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
      expect_same(
          [&](bool eagerly) {
            const Sequential model = strategy.build([&] {
              Layers chain = test.layers();
              chain.push_back(Dense({.units = 1}));
              return Sequential(chain);
            });
            model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError(), .run_eagerly = eagerly});
            Shape shape = test.sample;
            shape.insert(shape.begin(), 16);
            model.fit(at::rand(shape), at::rand({16, 1}), quiet());
            return model.get_weights();
          },
          ElementsAre(AllOf(HasSubstr("sequential.fit: "), HasSubstr(test.reason), HasSubstr("run_eagerly = true"))));
    }
}

// A step that throws is over where it throws; the next one is made as if nothing had been recorded.
TEST(RecordedTraining, GoesOnAfterAnErrorInAStep) {
  for (const int64_t failing : {0, 1})
    expect_same(
        [&](bool eagerly) {
          int64_t step = -1;
          const auto throws = [&](const Tensor& x) {
            if (step == failing) throw std::runtime_error("of the user");
            return x + at::zeros({1}).uniform_();
          };
          const Sequential model({Dense({.units = 2}), layers::Lambda({.function = throws}), Dense({.units = 1})});
          model.build({kUnknown, 3});
          model.compile({.optimizer = optimizers::Adam(), .loss = losses::MeanSquaredError(), .run_eagerly = eagerly});
          Bits bits;
          for (step = 0; step < 6; ++step) try {
              model.train_on_batch({.x = at::rand({4, 3}), .y = at::ones({4, 1})});
            } catch (const std::runtime_error& error) {
              EXPECT_STREQ(error.what(), "of the user");
              bits.push_back(at::ones({}) * step);
            }
          for (const Tensor& weight : model.get_weights()) bits.push_back(weight);
          return bits;
        },
        IsEmpty());
}

}  // namespace
}  // namespace tutti::keras::recorded_fallback_test
