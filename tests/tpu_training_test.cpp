// Keras under a TPUStrategy, on XLA's CPU devices: the numbers of MirroredStrategy.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/cluster/tpu_cluster_resolver.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/function/function.h"
#include "tutti/keras/functional.h"
#include "tutti/keras/layers/activations/relu.h"
#include "tutti/keras/layers/attention/multi_head_attention.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/merging/merge.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/normalization/layer_normalization.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/optimizers/adadelta.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/adamax.h"
#include "tutti/keras/optimizers/adamw.h"
#include "tutti/keras/optimizers/ftrl.h"
#include "tutti/keras/optimizers/lion.h"
#include "tutti/keras/optimizers/nadam.h"
#include "tutti/keras/optimizers/rmsprop.h"
#include "tutti/keras/optimizers/schedules.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tpu/tpu_strategy.h"
#include "tutti/tpu/tpu_system.h"

namespace tutti {
namespace {

using keras::layers::Dense;
using keras::optimizers::Optimizer;
using testing::HasSubstr;
using Batch = PerReplica<std::tuple<Tensor, Tensor>>;

std::unique_ptr<TPUStrategy> strategy_on_cpus(int n) {
  const cluster::TPUClusterResolver resolver({.tpu = "local"}, cluster::Environment());
  connect_to_cluster(resolver);
  tpu::initialize_tpu_system(
      resolver, {.client_options = {{"cpu_device_count", int64_t{n}}},
                 .environment = cluster::Environment::Variables{{"TUTTI_PJRT_PLUGIN", TUTTI_XLA_CPU_PLUGIN}}});
  auto strategy = std::make_unique<TPUStrategy>(resolver);
  tpu::shutdown_tpu_system();
  return strategy;
}

keras::Sequential perceptron() {
  return keras::Sequential({Dense({.units = 16, .activation = "relu"}), Dense({.units = 4})});
}
keras::Sequential convolutional() {
  return keras::Sequential({keras::layers::Conv2D({.filters = 4, .activation = "relu"}),
                            keras::layers::BatchNormalization(), keras::layers::MaxPooling2D(),
                            keras::layers::Flatten(), Dense({.units = 4})});
}

// A block of two convolutions, added to what it is given; that comes to its sizes by a convolution of single pixels.
keras::Model residual() {
  using namespace keras::layers;
  const auto convolved = [](const keras::SymbolicTensor& x, int64_t size, int64_t stride) {
    return BatchNormalization()(Conv2D({.filters = 6,
                                        .kernel_size = {size, size},
                                        .strides = {stride, stride},
                                        .padding = Padding::same,
                                        .use_bias = false})(x));
  };
  const auto x = keras::Input({.shape = {8, 8, 3}});
  const auto block = convolved(ReLU()(convolved(x, 3, 2)), 3, 1);
  const auto sum = ReLU()(Add()({block, convolved(x, 1, 2)}));
  return keras::Model({.inputs = {x}, .outputs = {Dense({.units = 4})(GlobalAveragePooling2D()(sum))}});
}

keras::Sequential recurrent() { return keras::Sequential({keras::layers::LSTM({.units = 6}), Dense({.units = 4})}); }
// A block of attention and one of dense layers, each added to what it is given.
keras::Model transformer() {
  const auto x = keras::Input({.shape = {5, 8}});
  const auto attended = keras::layers::MultiHeadAttention({.num_heads = 2, .key_dim = 4})({x, x});
  const auto seen = keras::layers::LayerNormalization()(keras::layers::Add()({x, attended}));
  const auto hidden = Dense({.units = 8})(Dense({.units = 16, .activation = "gelu"})(seen));
  const auto last = keras::layers::LayerNormalization()(keras::layers::Add()({seen, hidden}));
  return keras::Model({.inputs = {x}, .outputs = {Dense({.units = 4})(keras::layers::Flatten()(last))}});
}

// A model, and a step of all replicas.
struct Training {
  Training(Strategy& used, const std::function<keras::Model()>& make, Optimizer chosen, const keras::Shape& input)
      : strategy(used), optimizer(std::move(chosen)) {
    set_random_seed(7);
    model = strategy.build([&] {
      keras::Model made = make();
      made.build(input);
      return made;
    });
  }

  Tensor step(const Batch& batch) {
    const auto replica_step = [&](const Tensor& x, const Tensor& y) {
      const Tensor each = at::cross_entropy_loss(model(x, {.training = true}), y, {}, at::Reduction::None);
      const Tensor loss = compute_average_loss(each, {.global_batch_size = 16});
      optimizer.apply_gradients(gradients(loss, model.trainable_variables()), model.trainable_variables());
      return loss.detach();
    };
    return strategy.reduce(ReduceOp::sum, strategy.run(replica_step, batch));
  }

  Strategy& strategy;
  Optimizer optimizer;
  keras::Model model = keras::Sequential(std::vector<keras::layers::Layer>());
};

#define SKIP_WITHOUT_XLA_DEVICES()                    \
  if (!std::filesystem::exists(TUTTI_XLA_CPU_PLUGIN)) \
  GTEST_SKIP() << "there is no plugin here: ./dev test -L pjrt fetches it"

class TrainingOnTpu : public testing::Test {
 protected:
  void use_devices(int n) {
    SKIP_WITHOUT_XLA_DEVICES();
    tpu_ = strategy_on_cpus(n);
    mirrored_.emplace(MirroredStrategyOptions{.devices = configure_logical_cpus(n)});
  }

  void compare(const std::function<keras::Model()>& make, const std::function<Optimizer()>& optimizer,
               const std::vector<int64_t>& input, int steps) {
    keras::Shape shape{keras::kUnknown};
    shape.insert(shape.end(), input.begin(), input.end());
    std::vector<int64_t> sizes{16};
    sizes.insert(sizes.end(), input.begin(), input.end());
    Training there(*tpu_, make, optimizer(), shape), here(*mirrored_, make, optimizer(), shape);
    const auto step = function([&](const Batch& batch) { return there.step(batch); }, {.name = "train"});
    double farthest = 0;
    for (int i = 0; i < steps; ++i) {
      at::manual_seed(i % 10);
      const Tensor x = at::randn(sizes);
      const std::tuple batch(x, x.flatten(1).narrow(1, 0, 4).argmax(1));
      const double made = step(tpu_->distribute(batch)).item<double>();
      const double wanted = here.step(mirrored_->distribute(batch)).item<double>();
      ASSERT_NEAR(made, wanted, 1e-4) << "step " << i;
      farthest = std::max(farthest, std::abs(made - wanted));
    }
    RecordProperty("largest_difference", str(farthest));
    EXPECT_EQ(there.optimizer.iterations(), steps);
    EXPECT_LE(step.tracing_count(), 3);
    EXPECT_GT(tpu_->traffic().sent, (steps - 4) * 16 * 4 * 4) << "it ran on the devices";
    const auto made = there.model.get_weights(), wanted = here.model.get_weights();
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::allclose(made[i], wanted[i], 1e-3, 1e-3)) << i;
  }

  std::unique_ptr<TPUStrategy> tpu_;
  std::optional<MirroredStrategy> mirrored_;
};

struct LongTraining {
  const char* name;
  std::function<keras::Model()> model;
  std::vector<int64_t> input;
  double epsilon;  // of Adam
  bool by_adam = false;
  int devices = 1;
};

void PrintTo(const LongTraining& training, std::ostream* out) { *out << training.name; }

// Every model by both optimizers: on 1, 2, 4 and 8 devices where TUTTI_TEST_ALL_TRAININGS is set, else on one of these.
// Adam with a small epsilon makes whole steps of last bits, which is all that the gradient of a bias has before a
// BatchNormalization, and which decide over a ReLU that is given next to nothing.
std::vector<LongTraining> long_trainings() {
  const LongTraining models[] = {{"Perceptron", perceptron, {6}, 1e-7},
                                 {"ConvolutionsWithBatchNormalization", convolutional, {8, 8, 1}, 1e-3},
                                 {"ResidualNetwork", residual, {8, 8, 3}, 1e-3},
                                 {"Transformer", transformer, {5, 8}, 1e-7},
                                 {"Lstm", recurrent, {5, 8}, 1e-7}};
  const bool all = std::getenv("TUTTI_TEST_ALL_TRAININGS") != nullptr;
  std::vector<LongTraining> trainings;
  int chosen = 1;
  for (LongTraining training : models) {
    for (const bool by_adam : {false, true}) {
      training.by_adam = by_adam;
      for (const int devices : {1, 2, 4, 8}) {
        training.devices = devices;
        if (all || devices == chosen) trainings.push_back(training);
      }
      chosen = chosen == 8 ? 1 : 2 * chosen;
    }
  }
  return trainings;
}

class LongTrainingOnTpu : public TrainingOnTpu, public testing::WithParamInterface<LongTraining> {
 protected:
  void SetUp() override { use_devices(GetParam().devices); }
};
INSTANTIATE_TEST_SUITE_P(All, LongTrainingOnTpu, testing::ValuesIn(long_trainings()), [](const auto& info) {
  return str(info.param.name, info.param.by_adam ? "ByAdamOn" : "BySgdOn", info.param.devices);
});

TEST_P(LongTrainingOnTpu, HasTheLossesOfMirroredStrategy) {
  const auto optimizer = [&]() -> Optimizer {
    if (GetParam().by_adam) return keras::optimizers::Adam({.learning_rate = 0.01, .epsilon = GetParam().epsilon});
    return keras::optimizers::SGD({.learning_rate = 0.05, .momentum = 0.9});
  };
  compare(GetParam().model, optimizer, GetParam().input, 100);
}

class KerasOnTpu : public TrainingOnTpu, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override { use_devices(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, KerasOnTpu, testing::Values(1, 2, 4, 8), testing::PrintToStringParamName());

TEST_P(KerasOnTpu, TrainsByAdamAsMirroredStrategyDoes) {
  compare(
      perceptron, [] { return keras::optimizers::Adam({.learning_rate = 0.01, .weight_decay = 0.01}); }, {6}, 100);
}

TEST_P(KerasOnTpu, FollowsAScheduleOfTheLearningRate) {
  const auto optimizer = [] {
    return keras::optimizers::SGD({.learning_rate = keras::optimizers::schedules::ExponentialDecay(
                                       {.initial_learning_rate = 0.2, .decay_steps = 5, .decay_rate = 0.5}),
                                   .momentum = 0.9,
                                   .clipvalue = 0.5});
  };
  compare(perceptron, optimizer, {6}, 30);
}

TEST_P(KerasOnTpu, TrainsByRmsPropAsMirroredStrategyDoes) {
  compare(
      perceptron, [] { return keras::optimizers::RMSprop({.learning_rate = 0.01, .centered = true}); }, {6}, 30);
}

TEST_P(KerasOnTpu, ClipsGradientsAsMirroredStrategyDoes) {
  compare(
      perceptron, [] { return keras::optimizers::SGD({.learning_rate = 0.3, .clipnorm = 0.2}); }, {6}, 12);
  compare(
      perceptron, [] { return keras::optimizers::SGD({.learning_rate = 0.3, .global_clipnorm = 0.3}); }, {6}, 12);
  compare(
      perceptron, [] { return keras::optimizers::SGD({.learning_rate = 0.3, .clipvalue = 0.05}); }, {6}, 12);
  compare(
      perceptron,
      [] { return keras::optimizers::AdamW({.learning_rate = 0.01, .weight_decay = 0.1, .global_clipnorm = 0.3}); },
      {6}, 12);
}

TEST_P(KerasOnTpu, AVariableAndItsOptimizerGoFromCheckpointToAnotherStrategyBitByBit) {
  const auto make = [] { return keras::optimizers::Adam({.learning_rate = 0.01}); };
  Training there(*tpu_, perceptron, make(), {keras::kUnknown, 6}),
      here(*mirrored_, perceptron, make(), {keras::kUnknown, 6});
  const auto step = function([&](const Batch& batch) { return there.step(batch); });
  const Tensor x = at::randn({16, 6});
  const std::tuple batch(x, x.narrow(1, 0, 4).argmax(1));
  here.step(mirrored_->distribute(batch));
  for (int i = 0; i < 5; ++i) step(tpu_->distribute(batch));
  const TemporaryFolder folder;
  const auto path = folder.path() / "checkpoint";
  Checkpoint({{"model", there.model}, {"optimizer", there.optimizer}}).write(path);
  const auto saved = there.model.get_weights();
  for (int i = 0; i < 2; ++i) step(tpu_->distribute(batch));
  EXPECT_FALSE(at::equal(saved[0], there.model.get_weights()[0]));
  Checkpoint({{"model", here.model}, {"optimizer", here.optimizer}}).restore(path).assert_consumed();
  Checkpoint({{"model", there.model}, {"optimizer", there.optimizer}}).restore(path).assert_consumed();
  const auto back = there.model.get_weights(), restored = here.model.get_weights();
  for (size_t i = 0; i < saved.size(); ++i) {
    EXPECT_TRUE(at::equal(restored[i], saved[i])) << i;
    EXPECT_TRUE(at::equal(back[i], saved[i])) << i;
  }
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(step(tpu_->distribute(batch)).item<double>(), here.step(mirrored_->distribute(batch)).item<double>(),
                1e-4);
}

TEST_P(KerasOnTpu, PredictsAndEvaluatesWhatItWasNotTrainedOn) {
  const Tensor x = at::randn({32, 6});
  set_random_seed(2);
  const auto model = tpu_->build([] {
    auto made = perceptron();
    made.build({keras::kUnknown, 6});
    return made;
  });
  const Tensor wanted = gather(model(x).detach());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(model.predict(x, {.batch_size = 8}), wanted, 1e-4, 1e-5));
}

TEST_P(KerasOnTpu, FitAndEvaluateGiveTheNumbersOfMirroredStrategy) {
  at::manual_seed(1);
  const Tensor x = at::randn({64, 6});
  const Tensor y = x.narrow(1, 0, 4).argmax(1);
  const auto train = [&](Strategy& strategy) {
    set_random_seed(9);
    auto model = strategy.build([] { return perceptron(); });
    model.compile({.optimizer = keras::optimizers::Adam({.learning_rate = 0.01}),
                   .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {keras::metrics::SparseCategoricalAccuracy()}});
    const auto history =
        model.fit(x, y, {.batch_size = 16, .epochs = 5, .verbose = keras::Verbose::silent, .shuffle = false});
    auto logs = history.history;
    for (const auto& [name, value] : model.evaluate(x, y, {.batch_size = 16, .verbose = keras::Verbose::silent}))
      logs["evaluated " + name] = {value};
    return logs;
  };
  const auto made = train(*tpu_), wanted = train(*mirrored_);
  ASSERT_EQ(made.size(), wanted.size());
  for (const auto& [name, values] : wanted)
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(made.at(name).at(i), values[i], 1e-4) << name << ' ' << i;
  EXPECT_GT(tpu_->traffic().received, 0);
}

TEST_P(KerasOnTpu, FitTrainsWithDropoutAndTheSameSeedGivesTheSame) {
  at::manual_seed(1);
  const Tensor x = at::randn({64, 6});
  const Tensor y = x.narrow(1, 0, 4).argmax(1);
  const auto train = [&](double rate) {
    set_random_seed(9);
    auto model = tpu_->build([&] {
      return keras::Sequential(
          {Dense({.units = 32, .activation = "relu"}), keras::layers::Dropout({.rate = rate}), Dense({.units = 4})});
    });
    model.compile({.optimizer = keras::optimizers::Adam({.learning_rate = 0.02}),
                   .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true})});
    return model.fit(x, y, {.batch_size = 16, .epochs = 8, .verbose = keras::Verbose::silent, .shuffle = false})
        .history.at("loss");
  };
  const auto losses = train(0.5), without = train(0);
  EXPECT_LT(losses.back(), 0.7 * losses.front());
  EXPECT_GT(losses.back(), without.back()) << "units are dropped";
  EXPECT_EQ(train(0.5), losses);
}

// Every optimizer whose elements are updated apart, but for SGD, Adam and RMSprop, which have tests of their own.
class OptimizerOnTpu : public KerasOnTpu {};
INSTANTIATE_TEST_SUITE_P(Devices, OptimizerOnTpu, testing::Values(2), testing::PrintToStringParamName());

TEST_P(OptimizerOnTpu, TrainsAsUnderMirroredStrategy) {
  namespace optimizers = keras::optimizers;
  const std::pair<const char*, std::function<Optimizer()>> all[] = {
      {"AdamW", [] { return optimizers::AdamW({.learning_rate = 0.01, .weight_decay = 0.05}); }},
      {"Adamax", [] { return optimizers::Adamax({.learning_rate = 0.01}); }},
      {"Nadam", [] { return optimizers::Nadam({.learning_rate = 0.01}); }},
      {"Adagrad", [] { return optimizers::Adagrad({.learning_rate = 0.05}); }},
      {"Adadelta", [] { return optimizers::Adadelta({.learning_rate = 1}); }},
      {"Lion", [] { return optimizers::Lion({.learning_rate = 0.002}); }},
      {"Ftrl", [] { return optimizers::Ftrl({.learning_rate = 0.1}); }},
  };
  for (const auto& [name, make] : all) {
    SCOPED_TRACE(name);
    compare(perceptron, make, {6}, 30);
  }
}

}  // namespace
}  // namespace tutti
