#include "tutti/keras/layers/preprocessing/image_preprocessing/resizing.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/center_crop.h"

namespace tutti::keras::layers {
namespace {

using data::ResizeMethod;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// 0, 1, 2, ... as one image.
Tensor counting_image(int64_t height, int64_t width) {
  return at::arange(height * width, at::kFloat).reshape({1, height, width, 1});
}
Tensor image_of(std::vector<double> numbers, int64_t height) {
  return at::tensor(numbers, at::kFloat).reshape({1, height, -1, 1});
}

// Values of Keras's tests.
TEST(Resizing, TakesTheNearestPixel) {
  const ResizeMethod nearest = ResizeMethod::nearest;
  const Tensor smaller = Resizing({.height = 2, .width = 2, .interpolation = nearest})(counting_image(4, 4));
  EXPECT_TRUE(at::equal(smaller, image_of({5, 7, 13, 15}, 2)));
  const Tensor larger = Resizing({.height = 4, .width = 4, .interpolation = nearest})(counting_image(2, 2));
  EXPECT_TRUE(at::equal(larger, image_of({0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3}, 4)));
}

TEST(Resizing, KeepsTheAspectRatioByCroppingOrPadding) {
  const Tensor cropped =
      Resizing({.height = 4, .width = 2, .interpolation = ResizeMethod::nearest, .aspect_ratio = AspectRatio::crop})(
          counting_image(4, 4));
  EXPECT_TRUE(at::equal(cropped, image_of({1, 2, 5, 6, 9, 10, 13, 14}, 4)));
  const Tensor padded = Resizing({.height = 4,
                                  .width = 4,
                                  .interpolation = ResizeMethod::nearest,
                                  .aspect_ratio = AspectRatio::pad,
                                  .fill_value = 7})(counting_image(2, 4));
  EXPECT_TRUE(at::equal(padded, image_of({7, 7, 7, 7, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7}, 4)));
}

TEST(Resizing, AntialiasingAveragesWhatItSkips) {
  // Triangles of 2 pixels to each side: weights 1 3 3 1, less what is outside.
  const Tensor impulse = image_of({0, 0, 8, 0}, 1);
  const auto resized = [&](bool antialias) {
    return Resizing({.height = 1, .width = 2, .antialias = antialias})(impulse);
  };
  EXPECT_TRUE(at::allclose(resized(false), image_of({0, 4}, 1)));
  EXPECT_TRUE(at::allclose(resized(true), image_of({8. / 7, 24. / 7}, 1)));
}

TEST(Resizing, KernelsReproduceStraightLinesInside) {
  const Tensor line = counting_image(1, 16);
  for (const ResizeMethod method : {ResizeMethod::bilinear, ResizeMethod::bicubic}) {
    const Tensor larger = Resizing({.height = 1, .width = 32, .interpolation = method})(line);
    EXPECT_TRUE(at::allclose(larger.narrow(2, 8, 16).flatten(), at::arange(8, 24, at::kFloat) / 2 - 0.25, 1e-5, 1e-5));
  }
  for (const ResizeMethod method : {ResizeMethod::bicubic, ResizeMethod::lanczos3, ResizeMethod::lanczos5}) {
    const Tensor flat = at::zeros({1, 9, 7, 2}) + 3;
    for (const bool antialias : {false, true})
      EXPECT_TRUE(
          at::allclose(Resizing({.height = 4, .width = 11, .interpolation = method, .antialias = antialias})(flat),
                       at::zeros({1, 4, 11, 2}) + 3));
  }
  // Keys's kernel half way between pixels: -1, 9, 9, -1 of 16.
  const Tensor half =
      Resizing({.height = 1, .width = 3, .interpolation = ResizeMethod::bicubic})(image_of({0, 0, 0, 16, 0, 0}, 1));
  EXPECT_TRUE(at::allclose(half.flatten().narrow(0, 1, 2), at::tensor({9., -16. / 17}, at::kFloat), 1e-5, 1e-5));
}

TEST(Resizing, KeepsTheDTypeAndRoundsIntegers) {
  const Resizing layer({.height = 1, .width = 4});
  const Tensor bytes = layer(at::tensor({0, 255}, at::kByte).reshape({1, 2, 1}));
  EXPECT_TRUE(at::equal(bytes, at::tensor({0, 64, 191, 255}, at::kByte).reshape({1, 4, 1})));
  EXPECT_EQ(layer(at::zeros({1, 2, 2, 3}, at::kHalf)).scalar_type(), at::kHalf);
  const Tensor overshoot = Resizing({.height = 1, .width = 8, .interpolation = ResizeMethod::bicubic})(
      at::tensor({0, 0, 255, 255}, at::kByte).reshape({1, 4, 1}));
  EXPECT_EQ(overshoot.flatten()[2].item<int64_t>(), 0);
  EXPECT_EQ(overshoot.flatten()[5].item<int64_t>(), 255);
}

TEST(CenterCrop, TakesTheMiddle) {
  EXPECT_TRUE(at::equal(CenterCrop({.height = 2, .width = 2})(counting_image(4, 4)), image_of({5, 6, 9, 10}, 2)));
  EXPECT_TRUE(at::equal(CenterCrop({.height = 1, .width = 3})(counting_image(4, 4).squeeze(0)),
                        image_of({4, 5, 6}, 1).squeeze(0)));
  EXPECT_EQ(CenterCrop({.height = 2, .width = 3})(counting_image(4, 4).to(at::kByte)).scalar_type(), at::kFloat);
}

TEST(CenterCrop, ResizesWhatIsSmaller) {
  const CenterCrop layer({.height = 4, .width = 4});
  EXPECT_EQ(layer.compute_output_shape({kUnknown, 2, 6, 3}), (Shape{kUnknown, 4, 4, 3}));
  const Tensor middle = counting_image(2, 6).narrow(2, 2, 2);
  EXPECT_TRUE(at::equal(layer(counting_image(2, 6)), Resizing({.height = 4, .width = 4})(middle)));
}

TEST(Resizing, RefusesWhatIsNoImage) {
  EXPECT_THAT(error_of([] { Resizing({.height = 2}); }),
              StartsWith("invalid_argument: resizing: height is 2, width 0"));
  EXPECT_THAT(error_of([] { CenterCrop({.width = 2}); }), StartsWith("invalid_argument: center_crop: height is 0"));
  EXPECT_THAT(error_of([] {
                Resizing({.height = 2, .width = 2})(at::zeros({2, 2}));
              }),
              HasSubstr("resizing: the input has shape (2, 2); it must be [batch, height, width, channels]"));
}

TEST(Resizing, TakesAnEmptyBatch) {
  const Tensor none = at::zeros({0, 6, 6, 1});
  EXPECT_EQ(Resizing({.height = 4, .width = 5})(none).sizes(), (Shape{0, 4, 5, 1}));
  EXPECT_EQ(Resizing({.height = 4, .width = 5, .aspect_ratio = AspectRatio::crop})(none).sizes(), (Shape{0, 4, 5, 1}));
  EXPECT_EQ(Resizing({.height = 4, .width = 5, .aspect_ratio = AspectRatio::pad})(none).sizes(), (Shape{0, 4, 5, 1}));
}

}  // namespace
}  // namespace tutti::keras::layers
