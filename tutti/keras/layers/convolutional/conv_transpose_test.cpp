#include "tutti/keras/layers/convolutional/conv_transpose.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/distribute/gradients.h"
#include "tutti/keras/layers/convolutional/conv.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

// By definition: where a convolution takes z [2, extent, 3] to the shape of x, what the transposed one makes of x is
// the gradient of that convolution, weighed by x, to z.
Tensor gradient_of_convolution(const Tensor& x, const Tensor& kernel, const Shape& z_shape, int64_t stride,
                               Padding padding, int64_t dilation) {
  const Conv1D conv({.filters = x.size(-1),
                     .kernel_size = {kernel.size(0)},
                     .strides = {stride},
                     .padding = padding,
                     .dilation_rate = {dilation},
                     .use_bias = false});
  conv.build(z_shape);
  conv.set_weights({kernel});
  const Tensor z = at::randn(z_shape).requires_grad_();
  return gradients((conv(z) * x).sum(), {z})[0];
}

TEST(Conv1DTranspose, IsTheGradientOfAConvolution) {
  const Tensor x = at::randn({2, 5, 4});
  for (const auto padding : {Padding::valid, Padding::same})
    for (const int64_t kernel_size : {1, 2, 3, 4, 5})
      for (const int64_t stride : {1, 2, 3})
        for (const int64_t dilation : {1, 2}) {
          SCOPED_TRACE(testing::Message() << kernel_size << " by " << stride << ", dilation " << dilation << ", same "
                                          << (padding == Padding::same));
          const Conv1DTranspose layer({.filters = 3,
                                       .kernel_size = {kernel_size},
                                       .strides = {stride},
                                       .padding = padding,
                                       .dilation_rate = {dilation}});
          const Tensor y = layer(x);
          EXPECT_EQ(layer.weights()[0].value.sizes(), (Shape{kernel_size, 3, 4}));
          const Tensor expected =
              gradient_of_convolution(x, layer.get_weights()[0], y.sizes().vec(), stride, padding, dilation);
          EXPECT_TRUE(at::allclose(y, expected, 1e-4, 1e-5));
        }
}

TEST(Conv1DTranspose, WithOutputPaddingIsTheGradientOfAConvolution) {
  const Tensor x = at::randn({2, 5, 4});
  for (const auto padding : {Padding::valid, Padding::same})
    for (const int64_t kernel_size : {1, 2, 3, 4, 5})
      for (const int64_t output_padding : {1, 2}) {
        SCOPED_TRACE(testing::Message() << kernel_size << ", output padding " << output_padding);
        const Conv1DTranspose layer({.filters = 3,
                                     .kernel_size = {kernel_size},
                                     .strides = {3},
                                     .padding = padding,
                                     .output_padding = Size1D{output_padding}});
        const Tensor y = layer(x);
        EXPECT_EQ(y.size(1), 4 * 3 + (padding == Padding::same ? kernel_size % 2 : kernel_size) + output_padding);
        const Tensor expected =
            gradient_of_convolution(x, layer.get_weights()[0], y.sizes().vec(), /*stride=*/3, padding, /*dilation=*/1);
        EXPECT_TRUE(at::allclose(y, expected, 1e-4, 1e-5));
      }
}

TEST(Conv2DTranspose, HasKerassExtents) {
  const auto shape = [](Padding padding, const Size2D& strides) {
    return Conv2DTranspose({.filters = 2, .kernel_size = {3, 2}, .strides = strides, .padding = padding})
        .compute_output_shape({kUnknown, 5, kUnknown, 4});
  };
  EXPECT_EQ(shape(Padding::same, {2, 3}), (Shape{kUnknown, 10, kUnknown, 2}));
  EXPECT_EQ(shape(Padding::valid, {2, 3}), (Shape{kUnknown, 11, kUnknown, 2}));
  EXPECT_EQ(shape(Padding::valid, {4, 3}), (Shape{kUnknown, 20, kUnknown, 2}));
}

TEST(Conv2DTranspose, AddsItsBiasEverywhere) {
  const Conv2DTranspose layer({.filters = 2,
                               .kernel_size = {1, 1},
                               .strides = {2, 2},
                               .kernel_initializer = initializers::Zeros(),
                               .bias_initializer = initializers::Constant(0.5)});
  EXPECT_TRUE(at::allclose(layer(at::randn({1, 3, 3, 4})), at::full({1, 6, 6, 2}, 0.5)));
}

TEST(Conv2DTranspose, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] {
                Conv2DTranspose({.filters = 2, .output_padding = Size2D{1, 0}});
              }),
              HasSubstr("conv2d_transpose: output_padding [1, 0], strides [1, 1]; output_padding must be less"));
  EXPECT_THAT(error_of([] {
                Conv2DTranspose({.filters = 2}).build({kUnknown, 3, 3});
              }),
              HasSubstr("it must be [batch, height, width, channels]"));
}

}  // namespace
}  // namespace tutti::keras::layers
