#include "tutti/keras/layers/data_format.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <functional>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/convolutional/conv_transpose.h"
#include "tutti/keras/layers/convolutional/depthwise_conv.h"
#include "tutti/keras/layers/convolutional/separable_conv.h"
#include "tutti/keras/layers/pooling/adaptive_pooling.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/center_crop.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_flip.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_rotation.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/resizing.h"
#include "tutti/keras/layers/reshaping/cropping.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/layers/reshaping/up_sampling.h"

namespace tutti::keras::layers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kChannelsFirst = DataFormat::channels_first;

// A layer in both formats gives the same, axes apart; x has its channels last.
template <class LayerType, class Options>
void expect_same(const Tensor& x, Options options) {
  const LayerType last(options);
  options.data_format = kChannelsFirst;
  const LayerType first(options);
  const Tensor expected = last(x, {.training = true});
  const Tensor x_first = x.movedim(-1, 1).contiguous();
  first.build(x_first.sizes().vec());
  first.set_weights(last.get_weights());
  const Tensor y = first(x_first, {.training = true});
  EXPECT_TRUE(at::allclose(y, expected.dim() == x.dim() ? expected.movedim(-1, 1) : expected, 1e-5, 1e-6))
      << first.name();
  EXPECT_EQ(y.sizes(), first.compute_output_shape(x_first.sizes().vec())) << first.name();
}

TEST(DataFormat, ChangesTheAxesAndNothingElse) {
  const Tensor sequence = at::randn({2, 8, 4}), images = at::randn({2, 7, 6, 4}), volume = at::randn({2, 5, 4, 6, 2});
  expect_same<Conv1D>(sequence, Conv1DOptions{.filters = 3, .padding = Padding::causal});
  expect_same<Conv2D>(images, Conv2DOptions{.filters = 4, .strides = {2, 1}, .padding = Padding::same, .groups = 2});
  expect_same<Conv3D>(volume, Conv3DOptions{.filters = 3});
  expect_same<Conv2DTranspose>(images, Conv2DTransposeOptions{.filters = 3, .strides = {2, 3}});
  expect_same<DepthwiseConv2D>(images, DepthwiseConv2DOptions{.depth_multiplier = 2});
  expect_same<SeparableConv2D>(images, SeparableConv2DOptions{.filters = 3});
  expect_same<MaxPooling2D>(images, MaxPooling2DOptions{.padding = Padding::same});
  expect_same<AveragePooling3D>(volume, AveragePooling3DOptions{.padding = Padding::same});
  expect_same<GlobalAveragePooling2D>(images, GlobalPoolingOptions{});
  expect_same<GlobalMaxPooling1D>(sequence, GlobalPoolingOptions{.keepdims = true});
  expect_same<AdaptiveAveragePooling2D>(images, AdaptivePoolingOptions<2>{.output_size = {3, 2}});
  expect_same<Cropping2D>(images, CroppingOptions<2>{.cropping = {1, 0, 2, 1}});
  expect_same<ZeroPadding3D>(volume, ZeroPaddingOptions<3>{});
  expect_same<UpSampling2D>(images, UpSamplingOptions<2>{.interpolation = Interpolation::bilinear});
  expect_same<Flatten>(images, FlattenOptions{});
  expect_same<Resizing>(images, ResizingOptions{.height = 3, .width = 9});
  expect_same<CenterCrop>(images, CenterCropOptions{.height = 3, .width = 4});
  expect_same<RandomFlip>(images, RandomFlipOptions{.seed = 1});
  expect_same<RandomRotation>(images, RandomRotationOptions{.factor = 0.2, .seed = 1});
}

TEST(DataFormat, WithChannelsFirstIsLibTorchs) {
  const Tensor x = at::randn({2, 3, 8, 8});
  const Conv2D conv({.filters = 5, .data_format = kChannelsFirst});
  const Tensor y = conv(x);
  EXPECT_TRUE(at::allclose(y, at::conv2d(x, conv.get_weights()[0].permute({3, 2, 0, 1})), 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(MaxPooling2D({.data_format = kChannelsFirst})(x), at::max_pool2d(x, 2)));
  const Tensor one = at::randn({3, 8, 8});
  EXPECT_EQ(Resizing({.height = 4, .width = 2, .data_format = kChannelsFirst})(one).sizes(),
            at::IntArrayRef({3, 4, 2}));
}

TEST(DataFormat, IsToldWithAnErrorsShapes) {
  const Conv2D conv({.filters = 5, .data_format = kChannelsFirst});
  conv.build({kUnknown, 3, 8, 8});
  EXPECT_THAT(error_of([&] {
                conv(at::zeros({2, 4, 8, 9}));
              }),
              AllOf(HasSubstr("the input has shape (2, 8, 9, 4); the layer was built for 3 channels"),
                    HasSubstr("data_format is channels_first; shapes are told here with the channels last")));
  EXPECT_THAT(error_of([] { Conv2D({.data_format = kChannelsFirst}); }),
              AllOf(HasSubstr("filters is 0"), Not(HasSubstr("data_format"))));
}

}  // namespace
}  // namespace tutti::keras::layers
