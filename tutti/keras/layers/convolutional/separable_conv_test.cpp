#include "tutti/keras/layers/convolutional/separable_conv.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/convolutional/depthwise_conv.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(DepthwiseConv2D, ConvolvesEachChannelAlone) {
  const DepthwiseConv2D layer({.kernel_size = {3, 2},
                               .strides = {2, 2},
                               .padding = Padding::same,
                               .depth_multiplier = 2,
                               .bias_initializer = initializers::Constant(0.25)});
  const Tensor x = at::randn({2, 7, 6, 3});
  const Tensor y = layer(x);
  const Tensor kernel = layer.get_weights()[0];
  EXPECT_EQ(kernel.sizes(), (Shape{3, 2, 3, 2}));
  EXPECT_EQ(layer.weights()[0].name, "kernel");
  for (int64_t channel = 0; channel < 3; ++channel) {
    const Conv2D conv({.filters = 2,
                       .kernel_size = {3, 2},
                       .strides = {2, 2},
                       .padding = Padding::same,
                       .bias_initializer = initializers::Constant(0.25)});
    conv.build({kUnknown, 7, 6, 1});
    conv.set_weights({kernel.narrow(2, channel, 1), conv.get_weights()[1]});
    EXPECT_TRUE(at::allclose(y.narrow(3, 2 * channel, 2), conv(x.narrow(3, channel, 1)), 1e-4, 1e-5)) << channel;
  }
}

TEST(SeparableConv1D, IsADepthwiseConvolutionAndAProduct) {
  const SeparableConv1D layer({.filters = 5,
                               .kernel_size = {3},
                               .padding = Padding::same,
                               .depth_multiplier = 2,
                               .activation = activations::relu});
  const Tensor x = at::randn({2, 7, 3});
  const Tensor y = layer(x);
  const std::vector<Tensor> weights = layer.get_weights();
  ASSERT_EQ(weights.size(), 3U);
  EXPECT_EQ(layer.weights()[0].name, "depthwise_kernel");
  EXPECT_EQ(weights[1].sizes(), (Shape{1, 6, 5}));
  const DepthwiseConv1D depthwise({.padding = Padding::same, .depth_multiplier = 2, .use_bias = false});
  depthwise.build({kUnknown, 7, 3});
  depthwise.set_weights({weights[0]});
  EXPECT_TRUE(at::allclose(y, depthwise(x).matmul(weights[1][0]).relu(), 1e-4, 1e-5));
}

TEST(SeparableConv2D, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { SeparableConv2D({.filters = 2, .depth_multiplier = 0}); }),
              HasSubstr("separable_conv2d: depth_multiplier is 0"));
  const SeparableConv2D layer({.filters = 2});
  layer(at::randn({1, 4, 4, 3}));
  EXPECT_THAT(error_of([&] { layer(at::randn({1, 4, 4, 2})); }), HasSubstr("built for 3 channels"));
}

}  // namespace
}  // namespace tutti::keras::layers
