// What a layer's call tells the layers that are called inside of it.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/core/lambda.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/regularization/activity_regularization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras::layers {
namespace {

Embedding words() {
  return Embedding(
      {.input_dim = 5, .output_dim = 2, .embeddings_initializer = initializers::Constant(0.5), .mask_zero = true});
}
LSTM reader(bool return_sequences = false) {
  return LSTM({.units = 2,
               .kernel_initializer = initializers::Ones(),
               .recurrent_initializer = initializers::Ones(),
               .return_sequences = return_sequences});
}
Dense head() { return Dense({.units = 1, .kernel_initializer = initializers::Ones()}); }

// Hands its options on to every layer, or to none.
class Reader : public ModelImpl {
 public:
  explicit Reader(bool hands_on) : ModelImpl("Reader"), hands_on_(hands_on) {}
  Tensor call(const Tensor& x, const CallOptions& options) const override {
    if (hands_on_) return head_(second_(first_(words_(x, options), options), options), options);
    return head_(second_(first_(words_(x))));
  }

 private:
  bool hands_on_;
  Embedding words_ = add(words());
  LSTM first_ = add(reader(true));
  LSTM second_ = add(reader());
  Dense head_ = add(head());
};

TEST(CallContext, PassesMasksOnInAModelOfItsOwnClass) {
  const Tensor x = at::tensor({1, 2, 0, 0, 3, 1, 4, 0}).reshape({2, 4});
  const Sequential chain({words(), reader(true), reader(), head()});
  for (const int replicas : {1, 2}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
    for (const bool hands_on : {false, true}) {
      const Model model = strategy.build([&] { return Model(std::make_shared<Reader>(hands_on)); });
      EXPECT_TRUE(at::allclose(model.predict(x), chain.predict(x), 1e-5, 1e-6)) << hands_on;
      EXPECT_TRUE(at::allclose(model(x), chain(x), 1e-5, 1e-6)) << hands_on;
    }
  }
}

// Its own mask goes with its input alone.
class Inner : public LayerImpl {
 public:
  Inner() : LayerImpl("Inner", "") { adopt(reader_.impl()); }
  void build(const Shape& input_shape) override {
    reader_.build(input_shape);
    track_layer(reader_.impl());
  }
  Tensor call(const Tensor& x, const CallOptions& options) const override {
    const Tensor all = reader_(flatten_(x), options);  // the output of a layer that gives no mask
    const Tensor shown = reader_(x), said = reader_(x, options), computed = reader_(x * 1, options);
    EXPECT_TRUE(at::equal(shown, said));
    EXPECT_TRUE(at::equal(computed, said));  // no layer's output: the mask that it was handed
    EXPECT_FALSE(at::equal(all, said));
    EXPECT_TRUE(at::equal(reader_(x, {.masks = {at::ones({1, 4}, at::kBool)}}), all));
    return shown;
  }
  Shape compute_output_shape(const Shape& input_shape) const override { return {input_shape[0], 2}; }

 private:
  Lambda flatten_ = Lambda({.function = [](const Tensor& x) { return x * 1; }});
  LSTM reader_ = reader();
};

TEST(CallContext, KnowsWhoseMaskIsWhose) {
  const Layer layer(std::make_shared<Inner>());
  const Tensor x = at::full({1, 4, 2}, 0.5), mask = at::tensor({1, 1, 0, 0}).to(at::kBool).unsqueeze(0);
  EXPECT_TRUE(at::allclose(layer(x, {.masks = {mask}}), reader()(x, {.masks = {mask}})));
}

class Forgetful : public ModelImpl {
 public:
  Forgetful() : ModelImpl("Forgetful") {}
  Tensor call(const Tensor& x, const CallOptions&) const override { return head_(penalty_(drop_(norm_(x)))); }

 private:
  BatchNormalization norm_ = add(BatchNormalization());
  Dropout drop_ = add(Dropout({.rate = 0.5}));
  ActivityRegularization penalty_ = add(ActivityRegularization({.l1 = 1}));
  Dense head_ = add(head());
};

TEST(CallContext, PassesTheTrainingFlagAndAddedLossesOn) {
  const Model model(std::make_shared<Forgetful>());
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.0}), .loss = losses::MeanSquaredError()});
  const Tensor x = at::rand({64, 3}) + 5;
  model.fit(x, at::rand({64, 1}), {.verbose = Verbose::silent});
  const Tensor moving_mean = model.get_weights()[2];
  EXPECT_GT(moving_mean.min().item<double>(), 0.05);  // 2 steps of (1 - momentum) * 5
  EXPECT_FALSE(at::equal(model(x, {.training = true}), model(x, {.training = true})));
  EXPECT_TRUE(at::equal(model(x), model(x)));
  AddedLosses added;
  model(x, {.added_losses = &added});
  EXPECT_EQ(added.size(), 1U);
}

TEST(CallContext, BuildsWithoutTraining) {
  const BatchNormalization norm;
  class Outer : public LayerImpl {
   public:
    explicit Outer(BatchNormalization norm) : LayerImpl("Outer", ""), inner_({norm, head()}) {}
    Tensor call(const Tensor& x, const CallOptions&) const override { return inner_(x); }
    Shape compute_output_shape(const Shape& input_shape) const override { return {input_shape[0], 1}; }

   private:
    Sequential inner_;
  };
  const Layer outer(std::make_shared<Outer>(norm));
  outer(at::ones({4, 3}), {.training = true});
  EXPECT_NEAR(norm.weights()[2].value[0].item<double>(), 0.01, 1e-6);  // one step
}

}  // namespace
}  // namespace tutti::keras::layers
