#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// One row of 1 2 3 4, seen from x pixels to its right.
std::vector<float> row_from(float x, FillMode fill_mode, Interpolation interpolation = Interpolation::bilinear) {
  const Tensor row =
      affine_transform(at::arange(1., 5.).reshape({1, 1, 4, 1}), at::tensor({1.F, 0.F, x, 0.F, 1.F, 0.F}).unsqueeze(0),
                       {.interpolation = interpolation, .fill_mode = fill_mode, .fill_value = 9});
  const Tensor flat = row.contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + 4};
}

TEST(AffineTransform, FillsWhatIsOutside) {
  const auto is = [](std::vector<float> numbers) { return Pointwise(FloatNear(1e-5F), numbers); };
  EXPECT_THAT(row_from(2, FillMode::constant), is({3, 4, 9, 9}));
  EXPECT_THAT(row_from(2, FillMode::nearest), is({3, 4, 4, 4}));
  EXPECT_THAT(row_from(2, FillMode::reflect), is({3, 4, 4, 3}));
  EXPECT_THAT(row_from(-6, FillMode::reflect), is({3, 4, 4, 3}));
  EXPECT_THAT(row_from(2, FillMode::wrap), is({3, 4, 1, 2}));
  EXPECT_THAT(row_from(-3, FillMode::wrap), is({2, 3, 4, 1}));
}

TEST(AffineTransform, MakesWhatIsBetweenPixels) {
  const auto is = [](std::vector<float> numbers) { return Pointwise(FloatNear(1e-5F), numbers); };
  EXPECT_THAT(row_from(0.25, FillMode::nearest), is({1.25, 2.25, 3.25, 4}));
  EXPECT_THAT(row_from(0.25, FillMode::constant), is({1.25, 2.25, 3.25, 0.75F * 4 + 0.25F * 9}));
  EXPECT_THAT(row_from(0.25, FillMode::nearest, Interpolation::nearest), is({1, 2, 3, 4}));
  EXPECT_THAT(row_from(0.5, FillMode::constant, Interpolation::nearest), is({2, 3, 4, 9}));  // halves away from 0
  EXPECT_THAT(row_from(-0.5, FillMode::constant, Interpolation::nearest), is({9, 2, 3, 4}));
}

TEST(AffineTransform, KeepsDTypeAndPassesGradients) {
  const Tensor images = at::randn({2, 3, 3, 2}, at::kDouble).requires_grad_();
  const Tensor same = affine_transform(images, at::tensor({1., 0., 0., 0., 1., 0.}).unsqueeze(0));
  EXPECT_EQ(same.scalar_type(), at::kDouble);
  EXPECT_TRUE(at::allclose(same, images, 1e-5, 1e-6));
  same.sum().backward();
  EXPECT_TRUE(at::allclose(images.grad(), at::zeros({2, 3, 3, 2}, at::kDouble) + 1, 1e-5, 1e-5));
}

TEST(AffineTransform, RefusesOtherShapes) {
  EXPECT_THAT(error_of([] {
                affine_transform(at::zeros({2, 3, 3, 1}), at::zeros({3, 6}));
              }),
              HasSubstr("invalid_argument: affine_transform: images [2, 3, 3, 1] of Float, transforms [3, 6]"));
  EXPECT_THAT(error_of([] {
                affine_transform(at::zeros({2, 3, 3, 1}, at::kByte), at::zeros({2, 6}));
              }),
              HasSubstr("of Byte"));
}

}  // namespace
}  // namespace tutti::keras
