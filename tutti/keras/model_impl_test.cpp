#include "tutti/keras/model_impl.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/constraints.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/model.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/keras/symbolic_tensor.h"

namespace tutti::keras {
namespace {

using layers::CallOptions;
using layers::Dense;
using ::testing::HasSubstr;

class TwoLayers : public ModelImpl {
 public:
  TwoLayers() : ModelImpl("TwoLayers") {}

  Tensor call(const Tensor& x, const CallOptions& options) const override { return out_(hidden_(x, options), options); }

 private:
  Dense hidden_ = add(Dense({.units = 4, .activation = activations::tanh}));
  Dense out_ = add(Dense({.units = 1}));
};

Model two_layers() { return Model(std::make_shared<TwoLayers>()); }

CompileOptions plain_training() {
  return {.optimizer = optimizers::SGD({.learning_rate = 0.1}), .loss = losses::MeanSquaredError()};
}

// The three kinds of model, with the same weights, give one another's numbers.
TEST(Models, OfAllKindsTrainAlike) {
  const Tensor x = at::randn({10, 3}), y = at::randn({10, 1});
  const auto functional = [] {
    const SymbolicTensor input = Input({.shape = {3}});
    return Model({.inputs = {input},
                  .outputs = {Dense({.units = 1})(Dense({.units = 4, .activation = activations::tanh})(input))}});
  };
  const auto sequential = []() -> Model {
    return Sequential({Dense({.units = 4, .activation = activations::tanh}), Dense({.units = 1})});
  };
  const Model first = sequential();
  first.build({kUnknown, 3});
  const std::vector<Tensor> initial = first.get_weights();
  std::vector<std::vector<Tensor>> trained;
  for (const int replicas : {1, 2, 4}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    for (const std::function<Model()>& make :
         {std::function<Model()>(sequential), std::function<Model()>(functional), std::function<Model()>(two_layers)}) {
      const Model model = strategy.build(make);
      model.compile(plain_training());
      model.build({kUnknown, 3});
      model.set_weights(initial);
      model.fit(x, y, {.batch_size = 4, .epochs = 2, .verbose = Verbose::silent, .shuffle = false});
      trained.push_back(model.get_weights());
    }
  }
  for (const auto& weights : trained)
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(at::allclose(weights[i], trained[0][i], 1e-5, 1e-6)) << i;
}

TEST(SubclassedModel, IsBuiltByItsFirstBatch) {
  const Model model = two_layers();
  model.compile(plain_training());
  EXPECT_FALSE(model.built());
  model.fit(at::randn({4, 3}), at::randn({4, 1}), {.verbose = Verbose::silent});
  ASSERT_EQ(model.weights().size(), 4U);
  EXPECT_EQ(model.weights()[2].name, "dense_1/kernel");
  EXPECT_EQ(model.compute_output_shape({kUnknown, 3}), (Shape{kUnknown, 1}));
}

// A step of its own: the gradient is taken of the loss with its sign turned round.
class Climber : public TwoLayers {
 public:
  StepShare train_step(const Batch& shard, const GlobalBatch& global) const override {
    layers::AddedLosses added;
    StepShare share = measure(shard, global, predictions(shard, {.training = true}), added);
    const std::vector<Tensor> variables = trainable_variables();
    compiled().optimizer->apply_gradients(gradients(-share.losses[0], variables), variables);
    share.losses[0] = share.losses[0].detach();
    return share;
  }
};

TEST(SubclassedModel, MayHaveATrainStepOfItsOwn) {
  const Tensor x = at::randn({8, 3}), y = at::randn({8, 1});
  const Model model(std::make_shared<Climber>());
  model.compile(plain_training());
  const History history = model.fit(x, y, {.batch_size = 8, .epochs = 2, .verbose = Verbose::silent});
  EXPECT_GT(history.history.at("loss")[1], history.history.at("loss")[0]);
}

// Adds the mean square of its input, and the sum of it, to the loss.
class Penalty : public layers::LayerImpl {
 public:
  Penalty() : LayerImpl("Penalty", "") {}
  Tensor call(const Tensor& x, const CallOptions& options) const override {
    add_loss(options, ReduceOp::mean, x.square().mean());
    add_loss(options, ReduceOp::sum, x.square().sum() * 0.1);
    return x;
  }
  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }
};

TEST(AddedLosses, AreThoseOfOneDeviceOnAnyNumberOfReplicas) {
  const Tensor x = at::randn({7, 1}), y = at::zeros({7, 1});
  const double expected = (x.square().mean() * 2 + x.square().sum() * 0.1).item<double>();
  for (const int replicas : {1, 2, 4}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] { return Sequential({layers::Layer(std::make_shared<Penalty>())}); });
    model.compile({.loss = losses::MeanSquaredError()});
    EXPECT_NEAR(model.evaluate(x, y, {.verbose = Verbose::silent}).at("loss"), expected, 1e-5) << replicas;
  }
}

TEST(Trainable, FreezesALayerAndWhatIsInIt) {
  const Dense frozen({.units = 2}), free({.units = 1});
  const Sequential model({Sequential({frozen}, "inner"), free});
  model.build({kUnknown, 3});
  model.compile(plain_training());
  EXPECT_EQ(model.trainable_variables().size(), 4U);
  frozen.set_trainable(false);
  EXPECT_EQ(model.trainable_variables().size(), 2U);
  const std::vector<Tensor> before = model.get_weights();
  model.fit(at::randn({4, 3}), at::randn({4, 1}), {.verbose = Verbose::silent});
  EXPECT_TRUE(at::equal(model.get_weights()[0], before[0]));
  EXPECT_FALSE(at::equal(model.get_weights()[2], before[2]));
  model.set_trainable(false);
  EXPECT_TRUE(model.trainable_variables().empty());
  model.set_trainable(true);
  EXPECT_EQ(model.trainable_variables().size(), 4U);
}

TEST(DTypePolicy, ComputesInTheLowerDtypeAndKeepsTheWeights) {
  for (const DTypePolicy policy : {DTypePolicy::mixed_bfloat16, DTypePolicy::mixed_float16}) {
    const Dense hidden = [&] {
      const DTypePolicyGuard guard(policy);
      return Dense({.units = 4});
    }();
    EXPECT_EQ(DTypePolicyGuard::current(), DTypePolicy::of_weights);
    const Tensor y = hidden(at::randn({2, 3}));
    EXPECT_EQ(y.scalar_type(), *compute_dtype(policy));
    EXPECT_EQ(hidden.weights()[0].value.scalar_type(), at::kFloat);
  }
}

TEST(DTypePolicy, TrainsUnderReplicas) {
  const Tensor x = at::randn({16, 3}), y = x.sum(1, true);
  for (const int replicas : {1, 2}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model = strategy.build([] {
      std::vector<layers::Layer> chain;
      {
        const DTypePolicyGuard guard(DTypePolicy::mixed_bfloat16);
        chain.push_back(Dense({.units = 8}));
      }
      const DTypePolicyGuard guard(DTypePolicy::float32);
      chain.push_back(Dense({.units = 1}));
      return Sequential(chain);
    });
    model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05}), .loss = losses::MeanSquaredError()});
    const History history = model.fit(x, y, {.epochs = 20, .verbose = Verbose::silent});
    EXPECT_LT(history.history.at("loss").back(), 0.2 * history.history.at("loss").front());
    EXPECT_EQ(model.weights()[0].value.scalar_type(), at::kFloat);
  }
}

TEST(DTypePolicy, ScalesTheLossOfFloat16) {
  const Sequential model = [] {
    const DTypePolicyGuard guard(DTypePolicy::mixed_float16);
    return Sequential({Dense({.units = 4})});
  }();
  model.compile(plain_training());
  model.fit(at::randn({8, 3}), at::randn({8, 4}), {.verbose = Verbose::silent});
  EXPECT_TRUE(model.model().compiled().optimizer->scales_loss());
}

TEST(Constraints, HoldAfterEachUpdate) {
  for (const int replicas : {1, 3}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    const Sequential model =
        strategy.build([] { return Sequential({Dense({.units = 1, .kernel_constraint = constraints::NonNeg()})}); });
    model.compile(plain_training());
    model.fit(at::ones({6, 3}), at::ones({6, 1}) * -9, {.verbose = Verbose::silent});
    EXPECT_GE(model.get_weights()[0].min().item<double>(), 0);
    EXPECT_LT(model.get_weights()[1].item<double>(), 0);  // the bias is free
  }
}

TEST(LayerImpl, SaysHowManyInputsItTakes) {
  const Dense dense({.units = 1});
  EXPECT_THAT(error_of([&] {
                dense({at::zeros({1, 1}), at::zeros({1, 1})});
              }),
              HasSubstr("dense: takes one input, not 2"));
}

}  // namespace
}  // namespace tutti::keras
