// Layers that change colours and values, with cases worked out by hand and in NumPy from Keras's formulas.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/auto_contrast.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/contrast_limited_adaptive_histogram_equalization.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/equalization.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_color_degeneration.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_color_jitter.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_gaussian_blur.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_grayscale.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_hue.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_invert.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_posterization.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_saturation.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_sharpness.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/solarization.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

const CallOptions kInTraining{.training = true};

// One image of this many channels.
Tensor pixels(const std::vector<double>& numbers, int64_t height = 1, int64_t channels = 1) {
  return at::tensor(numbers, at::kFloat).reshape({1, height, -1, channels});
}
Tensor colors(const std::vector<double>& numbers) { return pixels(numbers, 1, 3); }

void expect_close(const Tensor& seen, const Tensor& required) {
  EXPECT_TRUE(at::allclose(seen, required, 1e-4, 1e-4)) << seen << required;
}

TEST(RandomColorDegeneration, TakesTheColourOut) {
  const RandomColorDegeneration grey({.factor = {1, 1}, .value_range = {0, 1}});
  expect_close(grey(colors({1, 0, 0, 0, 1, 0.5}), kInTraining), colors({0.2989, 0.2989, 0.2989, 0.644, 0.644, 0.644}));
  const RandomColorDegeneration half({.factor = {0.5, 0.5}, .value_range = {0, 1}});
  expect_close(half(colors({1, 0, 0}), kInTraining), colors({0.64945, 0.14945, 0.14945}));
}

TEST(RandomGrayscale, MakesAllOrNoneGreyAtTheLimits) {
  expect_close(RandomGrayscale({.factor = 1})(colors({100, 50, 10}), kInTraining), colors({60.38, 60.38, 60.38}));
  expect_close(RandomGrayscale({.factor = 0})(colors({100, 50, 10}), kInTraining), colors({100, 50, 10}));
}

TEST(RandomHue, TurnsTheCircleOfColours) {
  const RandomHue opposite({.factor = {1, 1}, .value_range = {0, 1}});
  expect_close(opposite(colors({1, 0, 0, 0.2, 0.6, 0.4, 0.3, 0.3, 0.3}), kInTraining),
               colors({0, 1, 1, 0.6, 0.2, 0.4, 0.3, 0.3, 0.3}));
  const Tensor images = at::rand({4, 3, 3, 3}) * 255;
  expect_close(RandomHue({.factor = {0, 0}})(images, kInTraining), images);
}

TEST(RandomSaturation, GoesFromGreyToPure) {
  const Tensor color = colors({0.2, 0.6, 0.4});
  const auto saturated = [&](double factor) {
    return RandomSaturation({.factor = {factor, factor}, .value_range = {0, 1}})(color, kInTraining);
  };
  expect_close(saturated(0), colors({0.6, 0.6, 0.6}));
  expect_close(saturated(0.5), color);
  expect_close(saturated(1), colors({0, 0.6, 0.3}));
  expect_close(RandomSaturation({.factor = {1, 1}})(color * 255, kInTraining), colors({0, 153, 76.5}));
}

TEST(RandomColorJitter, DoesWhatItIsAskedFor) {
  const Tensor images = at::rand({4, 3, 3, 3}) * 255;
  EXPECT_TRUE(at::equal(RandomColorJitter()(images, kInTraining), images));
  const RandomColorJitter darker({.brightness_factor = FactorRange(-1, -1)});
  EXPECT_TRUE(at::equal(darker(images, kInTraining), at::zeros({4, 3, 3, 3})));
}

TEST(RandomSharpness, BlursBelowAHalfAndSharpensAbove) {
  const Tensor image = pixels({1, 1, 1, 1, 1, 1, 1, 1, 1}, 3);
  const double corner = 8.0 / 13, edge = 10.0 / 13;
  const auto at_factor = [&](double factor) {
    return RandomSharpness({.factor = {factor, factor}, .value_range = {0, 2}})(image, kInTraining);
  };
  expect_close(at_factor(0), pixels({corner, edge, corner, edge, 1, edge, corner, edge, corner}, 3));
  expect_close(at_factor(0.5), image);
  expect_close(at_factor(1), 2 * image - at_factor(0));
}

TEST(RandomPosterization, LeavesTheHighestBits) {
  expect_close(RandomPosterization({.factor = {3, 3}})(pixels({0, 31, 100, 255}), kInTraining),
               pixels({0, 0, 96, 224}));
  expect_close(RandomPosterization({.factor = {1, 2}, .value_range = {0, 1}})(pixels({0.25, 0.6, 1}), kInTraining),
               pixels({0, 128 / 255.0, 128 / 255.0}));
  EXPECT_THAT(error_of([] { RandomPosterization({.factor = {0, 9}}); }), HasSubstr("factor is {0, 9}"));
}

TEST(RandomInvert, TurnsLightToDark) {
  expect_close(RandomInvert({.factor = {1, 1}})(pixels({0, 55, 255}), kInTraining), pixels({255, 200, 0}));
  expect_close(RandomInvert({.factor = {0, 0}})(pixels({0, 55, 255}), kInTraining), pixels({0, 55, 255}));
}

TEST(RandomGaussianBlur, SpreadsAPoint) {
  const RandomGaussianBlur blur({.factor = {1, 1}, .sigma = {1, 1}, .value_range = {0, 1}});
  expect_close(blur(pixels({0, 0, 0, 0, 1, 0, 0, 0, 0}, 3), kInTraining),
               pixels({0.07511, 0.12384, 0.07511, 0.12384, 0.20418, 0.12384, 0.07511, 0.12384, 0.07511}, 3));
  const RandomGaussianBlur across({.factor = {1, 1}, .kernel_size = {1, 3}, .sigma = {1, 1}, .value_range = {0, 1}});
  expect_close(across(pixels({0, 1, 0, 0, 0, 0}, 2), kInTraining), pixels({0.27407, 0.45186, 0.27407, 0, 0, 0}, 2));
  EXPECT_THAT(error_of([] { RandomGaussianBlur({.kernel_size = {2, 3}}); }), HasSubstr("both must be odd"));
}

TEST(Solarization, InvertsWhatIsBright) {
  expect_close(Solarization()(pixels({0, 100, 255}), kInTraining), pixels({255, 155, 0}));
  expect_close(Solarization({.threshold_factor = {0.5, 0.5}})(pixels({100, 200}), kInTraining), pixels({100, 55}));
  expect_close(Solarization({.addition_factor = {0.1, 0.1}, .threshold_factor = {0.5, 0.5}, .value_range = {0, 1}})(
                   pixels({0.2, 0.45}), kInTraining),
               pixels({0.3, 0.45}));
}

TEST(AutoContrast, StretchesEachChannelOfEachImage) {
  const Tensor images = at::tensor({10.0, 7.0, 20.0, 7.0, 30.0, 7.0}, at::kFloat).reshape({1, 1, 3, 2});
  const Tensor stretched = at::tensor({0.0, 7.0, 127.5, 7.0, 255.0, 7.0}, at::kFloat).reshape({1, 1, 3, 2});
  expect_close(AutoContrast()(images), stretched);
  expect_close(AutoContrast({.value_range = {-1, 1}})(pixels({-0.5, 0, 0.5})), pixels({-1, 0, 1}));
}

TEST(Equalization, MakesValuesEquallyFrequent) {
  expect_close(Equalization()(pixels({0, 0, 100, 200}), kInTraining), pixels({0, 0, 128, 255}));
  expect_close(Equalization()(pixels({9, 9, 9}), kInTraining), pixels({9, 9, 9}));
  expect_close(Equalization({.value_range = {0, 1}})(pixels({0.5, 0.25, 0.5}), kInTraining), pixels({1, 0, 1}));
  const Tensor images = at::rand({3, 6, 5, 2}) * 255;
  const Tensor together = Equalization()(images, kInTraining);
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_TRUE(at::equal(Equalization()(images.narrow(0, i, 1), kInTraining), together.narrow(0, i, 1)));
  EXPECT_TRUE(at::equal(Equalization()(images), images));
}

TEST(ContrastLimitedAdaptiveHistogramEqualization, IsThatOfKeras) {
  const Tensor image = pixels({10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 250, 10, 10, 200, 30, 5, 90, 90, 255}, 5);
  expect_close(ContrastLimitedAdaptiveHistogramEqualization({.tile_grid_size = {2, 2}})(image),
               pixels({13.057699, 26.115399, 33.175303, 44.233738, 57.291437, 70.349136, 77.409041,
                       88.467475, 100.89819, 113.36786, 120.36232, 249.77778, 15.292864, 15.292864,
                       202.09737, 31.646583, 8.0582758, 98.390261, 95.802503, 255},
                      5));
  expect_close(ContrastLimitedAdaptiveHistogramEqualization({.clip_limit = 40, .tile_grid_size = {2, 3}})(image),
               pixels({40.476190, 80.952381, 61.648352, 82.197802, 122.67399, 163.15018, 143.84615,
                       164.39560, 198.64393, 233.25788, 213.29193, 247.77843, 62.816077, 62.816077,
                       220.91370, 46.423153, 35.533544, 173.73246, 147.89770, 255},
                      5));
  const ContrastLimitedAdaptiveHistogramEqualization small({.value_range = {0, 1}});
  EXPECT_EQ(small(at::rand({2, 3, 3, 2})).sizes(), (Shape{2, 3, 3, 2}));  // tiles of a pixel
}

TEST(ColorLayers, RefuseWhatHasNoColours) {
  EXPECT_THAT(error_of([] {
                RandomHue({.factor = 0.5})(at::rand({1, 2, 2, 4}), kInTraining);
              }),
              HasSubstr("random_hue: the images have 4 channels; it takes colours: [3]"));
  EXPECT_THAT(error_of([] { RandomGrayscale()(at::rand({1, 2, 2, 2}), kInTraining); }), HasSubstr("[1, 3]"));
  EXPECT_THAT(error_of([] { RandomHue({.factor = {0.5, 1.5}}); }), HasSubstr("it must lie in [0, 1]"));
  EXPECT_THAT(error_of([] { AutoContrast({.value_range = {1, 1}}); }), HasSubstr("its numbers must differ"));
}

TEST(ColorLayers, TakeChannelsFirst) {
  const Tensor images = at::rand({2, 4, 5, 3}) * 255;
  const Tensor moved = RandomSaturation({.factor = {0.2, 0.2}, .data_format = DataFormat::channels_first})(
      images.movedim(-1, 1), kInTraining);
  expect_close(moved.movedim(1, -1), RandomSaturation({.factor = {0.2, 0.2}})(images, kInTraining));
}

}  // namespace
}  // namespace tutti::keras::layers
