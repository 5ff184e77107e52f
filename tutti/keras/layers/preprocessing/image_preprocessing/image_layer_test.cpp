#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rot90.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_brightness.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_color_degeneration.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_color_jitter.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_contrast.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_crop.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_elastic_transform.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_erasing.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_flip.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_gaussian_blur.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_grayscale.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_hue.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_invert.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_perspective.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_posterization.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_rotation.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_saturation.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_sharpness.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_shear.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_translation.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_zoom.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/solarization.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const CallOptions kTraining{.training = true};

// 0, 1, 2, ... as one image.
Tensor counting(int64_t height, int64_t width) {
  return at::arange(height * width, at::kFloat).reshape({1, height, width, 1});
}
Tensor image(std::vector<double> numbers, int64_t height) {
  return at::tensor(numbers, at::kFloat).reshape({1, height, -1, 1});
}

// One of each that changes images of any size, but not their shape.
std::vector<Layer> random_layers(std::optional<uint64_t> seed = {}) {
  return {RandomFlip({.seed = seed}),
          RandomRotation({.factor = 0.2, .seed = seed}),
          RandomZoom({.height_factor = 0.3, .seed = seed}),
          RandomTranslation({.height_factor = 0.3, .width_factor = 0.3, .seed = seed}),
          RandomBrightness({.factor = 0.3, .value_range = {0, 1}, .seed = seed}),
          RandomContrast({.factor = 0.3, .value_range = {0, 1}, .seed = seed}),
          RandomColorDegeneration({.factor = 0.8, .value_range = {0, 1}, .seed = seed}),
          RandomGrayscale({.factor = 0.5, .seed = seed}),
          RandomHue({.factor = 0.8, .value_range = {0, 1}, .seed = seed}),
          RandomSaturation({.factor = 0.9, .value_range = {0, 1}, .seed = seed}),
          RandomColorJitter({.value_range = {0, 1}, .brightness_factor = 0.2, .hue_factor = 0.5, .seed = seed}),
          RandomSharpness({.factor = 0.9, .value_range = {0, 1}, .seed = seed}),
          RandomPosterization({.factor = {1, 8}, .value_range = {0, 1}, .seed = seed}),
          RandomInvert({.value_range = {0, 1}, .seed = seed}),
          RandomGaussianBlur({.value_range = {0, 1}, .seed = seed}),
          RandomErasing({.scale = {0.2, 0.6}, .value_range = {0, 1}, .seed = seed}),
          RandomShear({.x_factor = 0.5, .y_factor = 0.2, .seed = seed}),
          RandomPerspective({.seed = seed}),
          RandomElasticTransform({.value_range = {0, 1}, .seed = seed}),
          Solarization({.addition_factor = 0.5, .threshold_factor = 0.5, .value_range = {0, 1}, .seed = seed})};
}

TEST(RandomImageLayers, ChangeImagesInTrainingOnly) {
  const Tensor images = at::rand({16, 5, 4, 3});
  for (const Layer& layer : random_layers()) {
    EXPECT_TRUE(at::equal(layer(images), images)) << layer.name();
    EXPECT_FALSE(at::equal(layer(images, kTraining), images)) << layer.name();
  }
}

TEST(RandomImageLayers, ChangeEachImageInItsOwnWay) {
  const Tensor images = at::rand({1, 5, 4, 3}).expand({32, 5, 4, 3});
  for (const Layer& layer : random_layers()) {
    const Tensor changed = layer(images, kTraining);
    EXPECT_FALSE(at::equal(changed, changed.narrow(0, 0, 1).expand_as(changed))) << layer.name();
  }
}

TEST(RandomImageLayers, TakeBatchesSingleImagesAndAnyDType) {
  for (const Layer& layer : random_layers())
    for (const Shape& shape : {Shape{2, 5, 4, 3}, Shape{5, 4, 3}, Shape{0, 5, 4, 3}}) {
      const Tensor bytes = layer(at::zeros(shape, at::kByte), kTraining);
      EXPECT_EQ(bytes.sizes(), layer.compute_output_shape(shape)) << layer.name();
      EXPECT_EQ(bytes.scalar_type(), at::kFloat) << layer.name();
      EXPECT_EQ(layer(at::zeros(shape, at::kDouble), kTraining).scalar_type(), at::kDouble) << layer.name();
    }
}

TEST(RandomImageLayers, FollowTheRandomSeed) {
  const Tensor images = at::rand({4, 5, 4, 3});
  for (const Layer& layer : random_layers()) {
    set_random_seed(7);
    const Tensor first = layer(images, kTraining);
    set_random_seed(7);
    EXPECT_TRUE(at::equal(layer(images, kTraining), first)) << layer.name();
  }
}

TEST(RandomImageLayers, ASeedOfTheirOwnGivesTheSameSequence) {
  const Tensor images = at::rand({4, 5, 4, 3});
  const std::vector<Layer> layers = random_layers(3), twins = random_layers(3);
  for (size_t i = 0; i < layers.size(); ++i)
    for (int call = 0; call < 3; ++call) {
      set_random_seed(static_cast<uint64_t>(call));
      const Tensor images_now = layers[i](images, kTraining);
      set_random_seed(100);
      EXPECT_TRUE(at::equal(twins[i](images, kTraining), images_now)) << layers[i].name();
    }
}

TEST(RandomImageLayers, RefuseWhatIsNoImage) {
  for (const Layer& layer : random_layers())
    EXPECT_THAT(error_of([&] { layer(at::zeros({2, 3})); }), HasSubstr("it must be [batch, height, width, channels]"));
}

TEST(RandomFlip, TurnsAnImageOrLeavesIt) {
  const Tensor images = counting(3, 4).expand({64, 3, 4, 1});
  const std::vector<std::pair<FlipMode, Shape>> cases{
      {FlipMode::horizontal, {1}}, {FlipMode::vertical, {0}}, {FlipMode::horizontal_and_vertical, {0, 1}}};
  for (const auto& [mode, axes] : cases) {
    const Tensor turned = RandomFlip({.mode = mode})(images, kTraining);
    int64_t num_turned = 0;
    for (int64_t i = 0; i < 64; ++i) {
      const bool is_turned = at::equal(turned[i], images[i].flip(axes));
      EXPECT_TRUE(is_turned || at::equal(turned[i], images[i])) << i;
      num_turned += is_turned;
    }
    EXPECT_GT(num_turned, 10);
    EXPECT_LT(num_turned, 54);
  }
}

// Values of Keras's tests.
TEST(RandomRotation, TurnsCounterClockwise) {
  const Tensor half = RandomRotation({.factor = {0.5, 0.5}})(counting(5, 5), kTraining);
  EXPECT_TRUE(at::allclose(half, counting(5, 5).flip({1, 2}), 1e-5, 1e-4));
  const Tensor quarter = RandomRotation({.factor = {0.25, 0.25}})(counting(4, 4), kTraining);
  EXPECT_TRUE(at::allclose(quarter, at::rot90(counting(4, 4), 1, {1, 2}), 1e-5, 1e-4));
}

// Values of Keras's tests.
TEST(RandomZoom, ZoomsInAndOut) {
  const Tensor in = RandomZoom(
      {.height_factor = {-0.5, -0.5}, .width_factor = FactorRange(-0.5, -0.5), .fill_mode = FillMode::constant})(
      counting(5, 5), kTraining);
  EXPECT_TRUE(at::allclose(in, image({6.0,  6.5,  7.0,  7.5,  8.0,  8.5,  9.0,  9.5,  10.0, 10.5, 11.0, 11.5, 12.0,
                                      12.5, 13.0, 13.5, 14.0, 14.5, 15.0, 15.5, 16.0, 16.5, 17.0, 17.5, 18.0},
                                     5)));
  const auto out = [](Interpolation interpolation) {
    return RandomZoom({.height_factor = {0.5, 0.5},
                       .width_factor = FactorRange(0.8, 0.8),
                       .fill_mode = FillMode::constant,
                       .interpolation = interpolation})(counting(5, 5), kTraining);
  };
  EXPECT_TRUE(at::allclose(
      out(Interpolation::bilinear),
      image({0, 0, 0, 0, 0, 0, 2.7, 4.5, 6.3, 0, 0, 10.2, 12, 13.8, 0, 0, 17.7, 19.5, 21.3, 0, 0, 0, 0, 0, 0}, 5), 1e-5,
      1e-5));
  EXPECT_TRUE(
      at::allclose(out(Interpolation::nearest),
                   image({0, 0, 0, 0, 0, 0, 5, 7, 9, 0, 0, 10, 12, 14, 0, 0, 20, 22, 24, 0, 0, 0, 0, 0, 0}, 5)));
  const Tensor both =
      RandomZoom({.height_factor = {-0.5, -0.5}, .fill_mode = FillMode::constant})(counting(5, 5), kTraining);
  EXPECT_TRUE(at::allclose(both, in));
}

// Values of Keras's tests.
TEST(RandomTranslation, MovesDownAndToTheRight) {
  const auto moved = [](const Tensor& x, FactorRange down, FactorRange right, FillMode fill_mode) {
    return RandomTranslation({.height_factor = down, .width_factor = right, .fill_mode = fill_mode})(x, kTraining);
  };
  const Tensor x = counting(5, 5);
  const Tensor up = moved(x, {-0.2, -0.2}, 0, FillMode::constant);
  EXPECT_TRUE(at::allclose(up.narrow(1, 0, 4), x.narrow(1, 1, 4), 1e-5, 1e-4));
  EXPECT_TRUE(at::allclose(up.narrow(1, 4, 1), at::zeros({1, 1, 5, 1}), 0, 1e-4));
  const Tensor down = moved(x, {0.2, 0.2}, 0, FillMode::reflect);
  EXPECT_TRUE(at::allclose(down.narrow(1, 1, 4), x.narrow(1, 0, 4), 1e-5, 1e-4));
  EXPECT_TRUE(at::allclose(down.narrow(1, 0, 1), x.narrow(1, 0, 1), 1e-5, 1e-4));
  EXPECT_TRUE(at::allclose(moved(counting(8, 2), {0.5, 0.5}, 0, FillMode::reflect),
                           image({6, 7, 4, 5, 2, 3, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7}, 8), 1e-5, 1e-4));
  const Tensor right = moved(x, 0, {0.4, 0.4}, FillMode::wrap);
  EXPECT_TRUE(at::allclose(right.narrow(2, 2, 3), x.narrow(2, 0, 3), 1e-5, 1e-4));
}

TEST(RandomCrop, TakesOneWindowForTheBatchInTraining) {
  const Tensor images = counting(6, 8).expand({3, 6, 8, 1});
  const RandomCrop layer({.height = 2, .width = 3});
  EXPECT_EQ(layer.compute_output_shape({kUnknown, 6, 8, 1}), (Shape{kUnknown, 2, 3, 1}));
  bool moves = false;
  for (int i = 0; i < 20; ++i) {
    const Tensor window = layer(images, kTraining);
    const auto first = window[0][0][0][0].item<int64_t>();
    EXPECT_TRUE(at::equal(window, images.narrow(1, first / 8, 2).narrow(2, first % 8, 3)));
    moves |= first != layer(images, kTraining)[0][0][0][0].item<int64_t>();
  }
  EXPECT_TRUE(moves);
  EXPECT_TRUE(at::equal(RandomCrop({.height = 6, .width = 8})(images, kTraining), images));
}

TEST(RandomCrop, TakesTheMiddleOtherwise) {
  const RandomCrop layer({.height = 2, .width = 2});
  EXPECT_TRUE(at::equal(layer(counting(2, 4)), counting(2, 4).narrow(2, 1, 2)));
  EXPECT_EQ(layer(counting(1, 4), kTraining).sizes(), (Shape{1, 2, 2, 1}));
}

TEST(RandomBrightness, AddsWithinTheRangeOfValues) {
  const Tensor brighter = RandomBrightness({.factor = {0.1, 0.1}})(image({1, 100, 250}, 1), kTraining);
  EXPECT_TRUE(at::allclose(brighter, image({26.5, 125.5, 255}, 1)));
  EXPECT_TRUE(at::allclose(RandomBrightness({.factor = {-1, -1}})(counting(2, 2), kTraining), at::zeros({1, 2, 2, 1})));
}

TEST(RandomContrast, ScalesDistancesFromTheMean) {
  const Tensor images = at::rand({6, 4, 3, 2}) + 100;
  const Tensor mean = images.mean(at::IntArrayRef{1, 2}, true);
  const Tensor changed = RandomContrast({.factor = 0.5})(images, kTraining);
  const Tensor factors = ((changed - mean) / (images - mean)).reshape({6, -1});
  EXPECT_TRUE(at::allclose(factors, factors.narrow(1, 0, 1).expand_as(factors), 1e-2, 1e-2));
  EXPECT_GT(factors.min().item<double>(), 0.45);
  EXPECT_LT(factors.max().item<double>(), 1.55);
  const Tensor one = RandomContrast({.factor = {0.25, 0.25}, .value_range = {0, 4}})(image({1, 3}, 1), kTraining);
  EXPECT_GE(one.min().item<double>(), 0.75);
}

TEST(RandomImageLayers, RefuseFactorsOutOfTheirRange) {
  EXPECT_THAT(error_of([] { RandomRotation({.factor = 1.5}); }),
              StartsWith("invalid_argument: random_rotation: factor is [-1.5, 1.5]; it must lie in [-1, 1]"));
  EXPECT_THAT(error_of([] { RandomZoom({.height_factor = 2}); }), HasSubstr("height_factor is [-2, 2]"));
  EXPECT_THAT(error_of([] { RandomZoom({.height_factor = 0.5, .width_factor = FactorRange(0, 2)}); }),
              HasSubstr("width_factor is [0, 2]"));
  EXPECT_THAT(error_of([] { RandomTranslation({.height_factor = -2}); }), HasSubstr("height_factor is [-2, 2]"));
  EXPECT_THAT(error_of([] { RandomBrightness({.factor = 2}); }), HasSubstr("random_brightness: factor"));
  EXPECT_THAT(error_of([] { RandomContrast({.factor = 2}); }), HasSubstr("random_contrast: factor"));
  EXPECT_THAT(error_of([] { RandomCrop({.height = 2}); }), HasSubstr("random_crop: height is 2, width 0"));
}

}  // namespace
}  // namespace tutti::keras::layers
