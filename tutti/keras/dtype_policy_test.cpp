#include "tutti/keras/dtype_policy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <c10/core/DefaultDtype.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <functional>
#include <memory>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/activations/activation.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/convolutional/conv_transpose.h"
#include "tutti/keras/layers/convolutional/depthwise_conv.h"
#include "tutti/keras/layers/convolutional/separable_conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/normalization/layer_normalization.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/preprocessing/rescaling.h"
#include "tutti/keras/layers/recurrent/bidirectional.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/rnn.h"
#include "tutti/keras/layers/recurrent/rnn_cell.h"
#include "tutti/keras/layers/recurrent/simple_rnn.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using layers::Dense;
using layers::Layer;
using ::testing::HasSubstr;

void train_silently(const Sequential& model, const Tensor& x, const Tensor& y) {
  model.compile({.optimizer = optimizers::Adam(), .loss = losses::MeanSquaredError()});
  const History history = model.fit(x, y, {.verbose = Verbose::silent});
  EXPECT_TRUE(std::isfinite(history.history.at("loss")[0]));
}

TEST(Dtypes, AreCastToThatOfTheWeights) {
  const Tensor y = at::rand({8, 2});
  train_silently(Sequential({Dense({.units = 2})}), at::rand({8, 3}, at::kDouble), y);
  train_silently(Sequential({Dense({.units = 2})}), at::randint(9, {8, 3}), y.to(at::kDouble));
  const Tensor images = at::randint(255, {8, 4, 4, 1}, at::kByte);
  train_silently(Sequential({layers::Flatten(), Dense({.units = 2})}), images, y);
  train_silently(Sequential({layers::Rescaling({.scale = 1 / 255.}), layers::Conv2D({.filters = 2}),
                             layers::MaxPooling2D(), layers::Flatten(), Dense({.units = 2})}),
                 images, y);
  train_silently(
      Sequential({layers::MaxPooling2D(), layers::BatchNormalization(), layers::Dropout({.rate = 0.1}),
                  layers::Conv2D({.filters = 2, .kernel_size = {1, 1}}), layers::Flatten(), Dense({.units = 2})}),
      images, y);
  train_silently(Sequential({layers::LSTM({.units = 2})}), at::rand({8, 3, 2}, at::kDouble), y);
  EXPECT_EQ(Dense({.units = 2})(at::rand({2, 3}, at::kDouble)).scalar_type(), at::kFloat);
}

TEST(Dtypes, OfIdsMayBeFloat) {
  const layers::Embedding embedding({.input_dim = 5, .output_dim = 2, .mask_zero = true});
  const Tensor ids = at::tensor({1, 0, 4});
  EXPECT_TRUE(at::allclose(embedding(ids.to(at::kFloat)), embedding(ids)));
  EXPECT_THAT(error_of([&] { embedding(at::tensor({0.5})); }), HasSubstr("numbers that are not whole"));
  const DTypePolicyGuard guard(DTypePolicy::mixed_bfloat16);
  const layers::Embedding large({.input_dim = 1000, .output_dim = 2});  // bfloat16 has no 999
  const Tensor last = large(at::tensor({999.F}));
  EXPECT_TRUE(at::allclose(last[0].to(at::kFloat), large.weights()[0].value[999], 1e-2, 1e-2));
}

TEST(Dtypes, AModelFollowsTheDefaultDtype) {
  const caffe2::TypeMeta before = c10::get_default_dtype();
  c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  const Sequential model({Dense({.units = 4, .activation = activations::tanh}), layers::BatchNormalization(),
                          layers::LSTM({.units = 2}), Dense({.units = 1})});
  train_silently(model, at::rand({8, 5, 3}), at::rand({8, 1}));
  c10::set_default_dtype(before);
  for (const Tensor& weight : model.get_weights()) EXPECT_EQ(weight.scalar_type(), at::kDouble);
}

TEST(Dtypes, AConvertedModuleComputesInItsOwn) {
  const Sequential model({Dense({.units = 4}), Dense({.units = 1})});
  model.build({kUnknown, 3});
  model.module()->to(at::kDouble);
  train_silently(model, at::rand({8, 3}), at::rand({8, 1}));
  EXPECT_EQ(model.predict(at::rand({8, 3})).scalar_type(), at::kDouble);
}

struct Configuration {
  const char* name;
  std::function<Layer()> make;
  Shape input;
};

std::vector<Configuration> convolutions() {
  using layers::Padding;
  return {{"Conv1D", [] { return layers::Conv1D({.filters = 2, .kernel_size = {2}}); }, {2, 5, 3}},
          {"Conv2D", [] { return layers::Conv2D({.filters = 2}); }, {2, 5, 5, 3}},
          {"Conv2D same",
           [] {
             return layers::Conv2D({.filters = 2, .strides = {2, 2}, .padding = Padding::same});
           },
           {2, 6, 6, 3}},
          {"Conv3D", [] { return layers::Conv3D({.filters = 2}); }, {2, 5, 5, 5, 3}},
          {"Conv1DTranspose", [] { return layers::Conv1DTranspose({.filters = 2}); }, {2, 5, 3}},
          {"Conv2DTranspose", [] { return layers::Conv2DTranspose({.filters = 2}); }, {2, 5, 5, 3}},
          {"Conv3DTranspose", [] { return layers::Conv3DTranspose({.filters = 2}); }, {2, 3, 3, 3, 3}},
          {"DepthwiseConv2D", [] { return layers::DepthwiseConv2D(); }, {2, 5, 5, 3}},
          {"SeparableConv2D", [] { return layers::SeparableConv2D({.filters = 2}); }, {2, 5, 5, 3}}};
}

TEST(MixedPrecision, HasConvolutions) {
  for (const DTypePolicy policy : {DTypePolicy::mixed_bfloat16, DTypePolicy::mixed_float16})
    for (const Configuration& configuration : convolutions()) {
      Shape shape = configuration.input;
      const Tensor x = at::rand(shape);
      shape[0] = kUnknown;
      const Layer plain = configuration.make();
      plain.build(shape);
      const DTypePolicyGuard guard(policy);
      const Layer mixed = configuration.make();
      mixed.build(shape);
      mixed.set_weights(plain.get_weights());
      Tensor input = x.clone().requires_grad_();
      const Tensor y = mixed(input, {.training = true});
      y.sum().backward();
      EXPECT_EQ(y.scalar_type(), *compute_dtype(policy)) << configuration.name;
      EXPECT_TRUE(at::allclose(y.to(at::kFloat), plain(x), 0.05, 0.05)) << configuration.name;
      EXPECT_TRUE(input.grad().defined()) << configuration.name;
      EXPECT_EQ(mixed.weights()[0].value.grad().scalar_type(), at::kFloat) << configuration.name;
    }
}

TEST(DTypePolicy, MayBeWholeInOneDtype) {
  for (const DTypePolicy policy : {DTypePolicy::float64, DTypePolicy::bfloat16, DTypePolicy::float16}) {
    const DTypePolicyGuard guard(policy);
    const Sequential model({Dense({.units = 4, .activation = activations::relu}), layers::LayerNormalization(),
                            layers::BatchNormalization(), Dense({.units = 1})});
    train_silently(model, at::rand({8, 3}), at::rand({8, 1}));
    for (const Tensor& weight : model.get_weights()) EXPECT_EQ(weight.scalar_type(), *compute_dtype(policy));
    EXPECT_EQ(model(at::rand({2, 3})).scalar_type(), *compute_dtype(policy));
  }
}

TEST(DTypePolicy, OfRecurrenceMayBeHalfPrecision) {
  for (const DTypePolicy policy : {DTypePolicy::bfloat16, DTypePolicy::float16}) {
    const DTypePolicyGuard guard(policy);
    const std::vector<Layer> recurrent{layers::SimpleRNN({.units = 3}), layers::GRU({.units = 3}),
                                       layers::LSTM({.units = 3}), layers::RNN(layers::GRUCell({.units = 3})),
                                       layers::Bidirectional(layers::LSTM({.units = 3}))};
    for (const Layer& layer : recurrent) {
      const Sequential model({layer, Dense({.units = 1})});
      train_silently(model, at::rand({8, 5, 3}), at::rand({8, 1}));
      for (const Tensor& weight : model.get_weights()) EXPECT_EQ(weight.scalar_type(), *compute_dtype(policy));
    }
  }
}

TEST(DTypePolicy, OfALayerMayBeItsOwn) {
  const Dense last({.units = 1});
  last.set_dtype_policy(DTypePolicy::float64);
  const Sequential model({Dense({.units = 4}), last});
  train_silently(model, at::rand({8, 3}), at::rand({8, 1}));
  EXPECT_EQ(model.get_weights()[0].scalar_type(), at::kFloat);
  EXPECT_EQ(model.get_weights()[2].scalar_type(), at::kDouble);
  EXPECT_THAT(error_of([&] { last.set_dtype_policy(DTypePolicy::float32); }),
              HasSubstr("failed_precondition: dense_1.set_dtype_policy: kernel is made already, as Double"));
}

// Computes a product of its own in bfloat16, and has a layer in float32 inside.
class Mixed : public layers::LayerImpl {
 public:
  explicit Mixed(Dense inner) : LayerImpl("Mixed", ""), inner_(std::move(inner)) {}
  Tensor call(const Tensor& x, const layers::CallOptions&) const override {
    EXPECT_EQ(at::ones({2, 2}).matmul(at::ones({2, 2})).scalar_type(), at::kBFloat16);
    const Tensor y = inner_(x);
    EXPECT_EQ(y.scalar_type(), at::kFloat);
    return y;
  }
  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }

 private:
  Dense inner_;
};

TEST(DTypePolicy, OfAnInnerLayerHoldsInsideOfAMixedOne) {
  const Dense inner = [] {
    const DTypePolicyGuard guard(DTypePolicy::float32);
    return Dense({.units = 2});
  }();
  const DTypePolicyGuard guard(DTypePolicy::mixed_bfloat16);
  const Layer mixed(std::make_shared<Mixed>(inner));
  EXPECT_EQ(mixed(at::rand({2, 2})).scalar_type(), at::kBFloat16);
}

}  // namespace
}  // namespace tutti::keras
