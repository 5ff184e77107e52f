// Layers that move or replace pixels, and those that mix images.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/aug_mix.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/cut_mix.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/mix_up.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/rand_augment.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_elastic_transform.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_erasing.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_perspective.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_shear.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras::layers {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const CallOptions kTrained{.training = true};

TEST(RandomErasing, FillsARectangle) {
  const Tensor images = at::ones({64, 8, 12, 2});
  const Tensor filled = RandomErasing({.factor = {1, 1}, .scale = {0.25, 0.25}, .fill_value = {7}})(images, kTrained);
  for (int64_t i = 0; i < 64; ++i) {
    const Tensor erased = filled[i].select(-1, 0) == 7;
    EXPECT_EQ(erased.any(1).sum().item<int64_t>() * erased.any(0).sum().item<int64_t>(),
              erased.sum().item<int64_t>());            // a rectangle
    EXPECT_EQ(erased.any(1).sum().item<int64_t>(), 4);  // of half the height: its begin is seldom a whole number
    EXPECT_EQ(erased.any(0).sum().item<int64_t>(), 6);
  }
  const Tensor whole = RandomErasing({.factor = {1, 1}, .scale = {1, 1}, .fill_value = {3, 300}})(images, kTrained);
  EXPECT_TRUE(at::equal(whole, at::tensor({3.0F, 255.0F}).expand({64, 8, 12, 2})));
  const Tensor noise = RandomErasing({.factor = {1, 1}, .scale = {1, 1}, .value_range = {0, 1}})(images, kTrained);
  EXPECT_GE(noise.min().item<double>(), 0);
  EXPECT_LE(noise.max().item<double>(), 1);
  EXPECT_GT(noise.std().item<double>(), 0.2);
  EXPECT_THAT(error_of([&] {
                RandomErasing({.fill_value = {1, 2, 3}})(images, kTrained);
              }),
              HasSubstr("fill_value has 3 numbers, the images 2 channels"));
}

TEST(RandomShear, MovesRowsByTheirDistance) {
  const Tensor x = at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, at::kFloat).reshape({1, 2, 3, 1});
  const Tensor left = at::tensor({1.0, 2.0, 3.0, 5.0, 6.0, 0.0}, at::kFloat).reshape({1, 2, 3, 1});
  const Tensor right = at::tensor({1.0, 2.0, 3.0, 0.0, 4.0, 5.0}, at::kFloat).reshape({1, 2, 3, 1});
  bool was_left = false, was_right = false;
  for (int i = 0; i < 40; ++i) {
    const Tensor sheared =
        RandomShear({.x_factor = {1, 1}, .y_factor = {0, 0}, .fill_mode = FillMode::constant})(x, kTrained);
    const bool is_left = at::allclose(sheared, left, 1e-4, 1e-4), is_right = at::allclose(sheared, right, 1e-4, 1e-4);
    EXPECT_TRUE(is_left || is_right) << sheared;
    was_left |= is_left, was_right |= is_right;
  }
  EXPECT_TRUE(was_left && was_right);
}

TEST(RandomPerspective, KeepsTheUpperLeftCorner) {
  const Tensor images = at::rand({8, 6, 7, 2});
  EXPECT_TRUE(at::allclose(RandomPerspective({.factor = {1, 1}, .scale = 0})(images, kTrained), images, 1e-4, 1e-4));
  EXPECT_TRUE(at::equal(RandomPerspective({.factor = {0, 0}})(images, kTrained), images));
  const Tensor changed = RandomPerspective({.factor = {1, 1}, .scale = 0.8})(images, kTrained);
  EXPECT_TRUE(at::allclose(changed.select(1, 0).select(1, 0), images.select(1, 0).select(1, 0), 1e-4, 1e-4));
  EXPECT_FALSE(at::allclose(changed, images, 1e-2, 1e-2));
  EXPECT_TRUE(at::equal(RandomPerspective()(images.narrow(1, 0, 1), kTrained), images.narrow(1, 0, 1)));
}

// A ramp that is moved as a whole stays one: from where its values come tells how the corners were moved.
TEST(RandomPerspective, TakesStraightLinesToStraightLines) {
  const Tensor x = at::arange(9, at::kFloat).expand({9, 9}), y = x.t();
  const Tensor ramps = at::stack({x, y}, -1).unsqueeze(0);
  const Tensor moved = RandomPerspective({.factor = {1, 1}, .scale = 0.1, .fill_value = -100})(ramps, kTrained)[0];
  const auto at = [&](int64_t row, int64_t column) {
    return std::array{moved[row][column][0].item<double>(), moved[row][column][1].item<double>()};
  };
  for (int64_t row = 0; row < 7; ++row) {  // which come from inside
    const auto [x0, y0] = at(row, 1);
    const auto [x1, y1] = at(row, 3);
    const auto [x2, y2] = at(row, 5);
    EXPECT_NEAR((x1 - x0) * (y2 - y0), (x2 - x0) * (y1 - y0), 1e-3) << row;
  }
}

TEST(RandomElasticTransform, MovesPixelsOnly) {
  const Tensor even = at::full({4, 20, 16, 3}, 77.0F);
  EXPECT_TRUE(at::allclose(RandomElasticTransform()(even, kTrained), even, 1e-5, 1e-3));
  const Tensor images = at::rand({4, 20, 16, 3}) * 255;
  const Tensor moved = RandomElasticTransform({.factor = {1, 1}, .scale = {1, 1}})(images, kTrained);
  EXPECT_FALSE(at::allclose(moved, images, 1e-2, 1));
  EXPECT_LE(moved.max().item<double>(), images.max().item<double>() + 1e-3);
  EXPECT_TRUE(at::equal(RandomElasticTransform({.scale = {0, 0}})(images, kTrained), images));
}

TEST(RandAugment, ChangesABatchInTheRangeOfValues) {
  set_random_seed(1);
  const Tensor images = at::rand({4, 9, 8, 3}) * 255;
  const RandAugment layer({.seed = 5}), twin({.seed = 5});
  int changes = 0;
  for (int i = 0; i < 30; ++i) {
    const Tensor changed = layer(images, kTrained);
    EXPECT_TRUE(at::equal(twin(images, kTrained), changed)) << i;
    EXPECT_GE(changed.min().item<double>(), -1e-3);
    EXPECT_LE(changed.max().item<double>(), 255.001);
    changes += !at::equal(changed, images);
  }
  EXPECT_GT(changes, 20);
  EXPECT_TRUE(at::equal(layer(images), images));
  EXPECT_THAT(error_of([] { RandAugment({.num_ops = 0}); }), HasSubstr("num_ops is 0"));
}

TEST(AugMix, MixesChainsIntoTheBatch) {
  set_random_seed(1);
  const Tensor images = at::rand({4, 9, 8, 3});
  const AugMix layer({.value_range = {0, 1}, .seed = 5}), twin({.value_range = {0, 1}, .seed = 5});
  for (int i = 0; i < 20; ++i) {
    const Tensor changed = layer(images, kTrained);
    EXPECT_TRUE(at::equal(twin(images, kTrained), changed)) << i;
    EXPECT_GE(changed.min().item<double>(), 0);
    EXPECT_LE(changed.max().item<double>(), 1);
  }
  EXPECT_TRUE(at::equal(layer(images), images));
}

// Image i has the value i, and its label is the i-th unit vector: so the label tells what the image is made of.
struct Numbered {
  explicit Numbered(int64_t count)
      : images(at::arange(count, at::kFloat).reshape({count, 1, 1, 1}).expand({count, 8, 8, 2}).clone()),
        labels(at::eye(count)),
        values(at::arange(count, at::kFloat)) {}
  Tensor images, labels, values;
};

TEST(MixUp, MixesLabelsAsItMixesImages) {
  const Numbered batch(16);
  const std::vector<Tensor> mixed = MixUp({.alpha = 1}).outputs({batch.images, batch.labels}, kTrained);
  const Tensor expected = mixed[1].matmul(batch.values).reshape({16, 1, 1, 1});
  EXPECT_TRUE(at::allclose(mixed[0], expected.expand_as(mixed[0]), 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(mixed[1].sum(1), at::ones({16})));
  EXPECT_FALSE(at::equal(mixed[1], batch.labels));
  EXPECT_TRUE(at::equal(MixUp().outputs({batch.images, batch.labels})[0], batch.images));
}

TEST(CutMix, PutsARectangleOfAnotherImageIn) {
  const Numbered batch(16);
  for (const DataFormat format : {DataFormat::channels_last, DataFormat::channels_first}) {
    const bool first = format == DataFormat::channels_first;
    const Tensor images = first ? batch.images.movedim(-1, 1) : batch.images;
    const std::vector<Tensor> mixed = CutMix({.data_format = format}).outputs({images, batch.labels}, kTrained);
    ASSERT_EQ(mixed[0].sizes(), images.sizes());
    for (int64_t i = 0; i < 16; ++i) {
      const Tensor image = first ? mixed[0][i].movedim(0, -1) : mixed[0][i];
      const auto other = mixed[1][i].index_fill(0, at::tensor({i}), 0).argmax().item<int64_t>();
      const Tensor own = image == i, cut = image == other;
      EXPECT_TRUE(own.logical_or(cut).all().item<bool>()) << i;
      // By area; the rectangle's edges are between pixels.
      EXPECT_NEAR(mixed[1][i][i].item<double>(), own.to(at::kFloat).mean().item<double>(), 0.3) << i;
    }
  }
}

TEST(MixingLayers, RefuseWhatTheyCannotMix) {
  const Tensor images = at::zeros({4, 2, 2, 1});
  EXPECT_THAT(error_of([&] { MixUp()(images, kTrained); }),
              AllOf(HasSubstr("mix_up: got 1 input"), HasSubstr("outputs({images, labels})")));
  EXPECT_THAT(error_of([&] {
                CutMix().outputs({images, at::zeros({4}, at::kLong)}, kTrained);
              }),
              HasSubstr("the labels have dtype Long; only floating-point ones can be mixed"));
  EXPECT_THAT(error_of([&] {
                CutMix().outputs({images, at::zeros({3, 2})}, kTrained);
              }),
              HasSubstr("batches of as many of both"));
  EXPECT_THAT(error_of([] { MixUp({.alpha = 0}); }), HasSubstr("alpha is 0"));
}

}  // namespace
}  // namespace tutti::keras::layers
