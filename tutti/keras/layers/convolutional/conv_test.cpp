#include "tutti/keras/layers/convolutional/conv.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(Conv2D, IsLibTorchsConvolutionInOtherOrder) {
  const Conv2D conv({.filters = 4,
                     .kernel_size = {3, 2},
                     .strides = {2, 1},
                     .dilation_rate = {1, 2},
                     .groups = 2,
                     .bias_initializer = initializers::Constant(0.25)});
  const Tensor x = at::randn({2, 9, 8, 6});
  const Tensor y = conv(x);
  const Tensor kernel = conv.weights()[0].value;
  EXPECT_EQ(kernel.sizes(), (Shape{3, 2, 3, 4}));
  const Tensor expected = at::conv2d(x.permute({0, 3, 1, 2}).contiguous(), kernel.permute({3, 2, 0, 1}).contiguous(),
                                     {}, {2, 1}, at::IntArrayRef({0, 0}), {1, 2}, 2) +
                          0.25;
  EXPECT_TRUE(at::allclose(y, expected.permute({0, 2, 3, 1}), 1e-4, 1e-5));
  EXPECT_EQ(y.sizes(), conv.compute_output_shape(x.sizes().vec()));
}

TEST(Conv2D, StaysChannelsLastWithoutACopy) {
  for (const int64_t channels : {1, 3}) {
    const Conv2D layer({.filters = 4});
    EXPECT_TRUE(layer(at::randn({2, 8, 8, channels})).is_contiguous()) << channels;
  }
}

// A row of ones under a kernel of ones counts the elements that each window covers.
TEST(Conv2D, SamePaddingHasItsLargerHalfAtTheEnd) {
  const auto windows = [](int64_t kernel, int64_t stride) {
    const Conv2D conv({.filters = 1,
                       .kernel_size = {1, kernel},
                       .strides = {1, stride},
                       .padding = Padding::same,
                       .kernel_initializer = initializers::Ones()});
    const Tensor counts = conv(at::ones({1, 1, 5, 1})).flatten();
    return std::vector<float>(counts.const_data_ptr<float>(), counts.const_data_ptr<float>() + counts.numel());
  };
  EXPECT_EQ(windows(3, 1), (std::vector<float>{2, 3, 3, 3, 2}));
  EXPECT_EQ(windows(2, 1), (std::vector<float>{2, 2, 2, 2, 1}));
  EXPECT_EQ(windows(3, 2), (std::vector<float>{2, 3, 2}));
  EXPECT_EQ(windows(4, 2), (std::vector<float>{3, 4, 2}));
  EXPECT_EQ(windows(1, 3), (std::vector<float>{1, 1}));
}

// Of a causal convolution, no window sees what comes after its last element.
TEST(Conv1D, CausalPaddingIsInFront) {
  const auto windows = [](int64_t kernel, int64_t stride, int64_t dilation) {
    const Conv1D conv({.filters = 1,
                       .kernel_size = {kernel},
                       .strides = {stride},
                       .padding = Padding::causal,
                       .dilation_rate = {dilation},
                       .kernel_initializer = initializers::Ones()});
    const Tensor sums = conv(at::arange(1, 6, at::kFloat).view({1, 5, 1})).flatten();
    return std::vector<float>(sums.const_data_ptr<float>(), sums.const_data_ptr<float>() + sums.numel());
  };
  EXPECT_EQ(windows(2, 1, 1), (std::vector<float>{1, 3, 5, 7, 9}));
  EXPECT_EQ(windows(2, 1, 2), (std::vector<float>{1, 2, 4, 6, 8}));
  EXPECT_EQ(windows(3, 2, 1), (std::vector<float>{1, 6, 12}));
}

TEST(Conv1D, IsConv2DOfOneRow) {
  const Conv1D conv({.filters = 4, .kernel_size = {3}, .strides = {2}, .padding = Padding::same, .groups = 2});
  const Conv2D rows({.filters = 4, .kernel_size = {1, 3}, .strides = {1, 2}, .padding = Padding::same, .groups = 2});
  const Tensor x = at::randn({2, 8, 6});
  conv.build({kUnknown, 8, 6});
  rows.build({kUnknown, 1, 8, 6});
  EXPECT_EQ(conv.weights()[0].value.sizes(), (Shape{3, 3, 4}));
  rows.set_weights({conv.get_weights()[0].unsqueeze(0), conv.get_weights()[1]});
  EXPECT_TRUE(at::allclose(conv(x), rows(x.unsqueeze(1)).squeeze(1)));
  EXPECT_TRUE(conv(x).is_contiguous());
}

TEST(Conv3D, IsLibTorchsConvolutionInOtherOrder) {
  const Conv3D conv({.filters = 4, .kernel_size = {2, 3, 1}, .strides = {1, 2, 1}, .padding = Padding::same});
  const Tensor x = at::randn({2, 4, 5, 6, 3});
  const Tensor y = conv(x);
  EXPECT_EQ(conv.weights()[0].value.sizes(), (Shape{2, 3, 1, 3, 4}));
  const Tensor padded = at::constant_pad_nd(x.permute({0, 4, 1, 2, 3}), {0, 0, 1, 1, 0, 1});
  const Tensor expected = at::conv3d(padded, conv.weights()[0].value.permute({4, 3, 0, 1, 2}), {}, {1, 2, 1});
  EXPECT_TRUE(at::allclose(y, expected.permute({0, 2, 3, 4, 1}), 1e-4, 1e-5));
}

TEST(Conv2D, TakesAnEmptyBatch) {
  const Conv2D conv({.filters = 4});
  conv.build({kUnknown, 8, 8, 3});
  const Tensor y = conv(at::randn({0, 8, 8, 3}));
  EXPECT_EQ(y.sizes(), (Shape{0, 6, 6, 4}));
}

TEST(Conv2D, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { Conv2D({.filters = 0}); }), HasSubstr("filters is 0; it must be positive"));
  EXPECT_THAT(error_of([] {
                Conv2D({.filters = 3, .strides = {0, 1}});
              }),
              HasSubstr("conv2d: kernel_size [3, 3], strides [0, 1], dilation_rate [1, 1]; all must be positive"));
  EXPECT_THAT(error_of([] { Conv2D({.filters = 3, .padding = Padding::causal}); }), HasSubstr("only Conv1D has it"));
  EXPECT_THAT(error_of([] { Conv2D({.filters = 3, .groups = 2}); }), HasSubstr("do not divide into 2 groups"));
  const Conv2D conv({.filters = 4});
  EXPECT_THAT(error_of([&] {
                conv.build({kUnknown, 8, 8});
              }),
              HasSubstr("it must be [batch, height, width, channels]"));
  EXPECT_THAT(error_of([&] { conv.build({kUnknown, 2, 8, 3}); }), HasSubstr("smaller than a window of [3, 3]"));
  EXPECT_THAT(error_of([&] { conv.build({kUnknown, 8, 8, kUnknown}); }), HasSubstr("channels"));
  conv.build({kUnknown, 8, 8, 3});
  EXPECT_THAT(error_of([&] { conv(at::randn({1, 8, 8, 2})); }), HasSubstr("built for 3 channels"));
}

}  // namespace
}  // namespace tutti::keras::layers
