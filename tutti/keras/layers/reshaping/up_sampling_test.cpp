#include "tutti/keras/layers/reshaping/up_sampling.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(UpSampling, RepeatsElements) {
  const Tensor x = at::randn({2, 3, 4, 2, 5});
  const Tensor y = UpSampling3D({.size = {2, 3, 1}})(x);
  EXPECT_TRUE(at::equal(y, x.repeat_interleave(2, 1).repeat_interleave(3, 2)));
  EXPECT_EQ(UpSampling1D().compute_output_shape({kUnknown, kUnknown, 3}), (Shape{kUnknown, kUnknown, 3}));
}

// As tf.image.resize: the centers of pixels lie at halves, and beyond the outermost there is nothing to mix.
TEST(UpSampling2D, BilinearMixesBetweenTheCentersOfPixels) {
  const UpSampling2D layer({.size = {1, 2}, .interpolation = Interpolation::bilinear});
  const Tensor y = layer(at::tensor({0.0, 4.0, 8.0}).view({1, 1, 3, 1}));
  EXPECT_TRUE(at::allclose(y.flatten(), at::tensor({0.0, 1.0, 3.0, 5.0, 7.0, 8.0})));
}

TEST(UpSampling, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { UpSampling2D({.size = {2, 0}}); }), HasSubstr("up_sampling2d: size is [2, 0]"));
  EXPECT_THAT(error_of([] { UpSampling1D({.interpolation = Interpolation::bilinear}); }),
              HasSubstr("only UpSampling2D has it"));
  EXPECT_THAT(error_of([] { UpSampling2D()(at::randn({2, 3, 4})); }), HasSubstr("[batch, height, width, channels]"));
}

}  // namespace
}  // namespace tutti::keras::layers
