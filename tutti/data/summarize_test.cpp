// Histograms and images for TensorBoard, and PNG files.
#include "tutti/data/summarize.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"
#include "tutti/data/decode_image.h"
#include "tutti/data/encode_png.h"

namespace tutti::data {
namespace {

using ::testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Bucket = std::array<double, 3>;

TEST(SummarizeHistogram, CountsInBucketsOfOneWidth) {
  EXPECT_THAT(summarize_histogram(at::arange(10).view({2, 5}), 3),
              ElementsAre(Bucket{0, 3, 3}, Bucket{3, 6, 3}, Bucket{6, 9, 4}));
  EXPECT_EQ(summarize_histogram(at::arange(10)).size(), 30U);
}

TEST(SummarizeHistogram, PutsEqualValuesIntoTheLastBucket) {
  EXPECT_THAT(summarize_histogram(at::full({4}, 2.5), 2), ElementsAre(Bucket{2.5, 2.5, 0}, Bucket{2.5, 2.5, 4}));
}

TEST(SummarizeHistogram, LeavesOutWhatIsNotFinite) {
  const Tensor values = at::tensor({0.0, kInfinity, 4.0, -kInfinity, std::numeric_limits<double>::quiet_NaN()});
  EXPECT_THAT(summarize_histogram(values, 2), ElementsAre(Bucket{0, 2, 1}, Bucket{2, 4, 1}));
  EXPECT_THAT(summarize_histogram(at::full({3}, kInfinity), 1), ElementsAre(Bucket{0, 0, 0}));
  EXPECT_THAT(summarize_histogram(at::empty({0}), 1), ElementsAre(Bucket{0, 0, 0}));
}

TEST(SummarizeHistogram, HoldsTheLargestNumbers) {
  const double most = std::numeric_limits<double>::max();
  EXPECT_THAT(summarize_histogram(at::tensor({-most, most}), 2), ElementsAre(Bucket{-most, 0, 1}, Bucket{0, most, 1}));
}

TEST(SummarizeHistogram, RefusesNoBuckets) {
  EXPECT_EQ(code_of([] { summarize_histogram(at::arange(3), 0); }), ErrorCode::invalid_argument);
}

TEST(SummarizeImages, EncodesTheFirstImages) {
  const Tensor images = at::randint(256, {5, 2, 3, 3}, at::kByte);
  const EncodedImages encoded = summarize_images(images);
  EXPECT_EQ(encoded.height, 2);
  EXPECT_EQ(encoded.width, 3);
  ASSERT_EQ(encoded.files.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(decode_image(encoded.files[i]).equal(images[static_cast<int64_t>(i)]));
}

TEST(SummarizeImages, TakesFloatingPointFrom0To1) {
  const Tensor image = at::tensor({-1.0, 0.0, 0.5, 1.0, 2.0, kInfinity}).view({1, 1, 6, 1});
  const Tensor bytes = decode_image(summarize_images(image).files[0]);
  EXPECT_TRUE(bytes.flatten().equal(at::tensor({0, 0, 127, 255, 255, 255}, at::kByte)));
}

TEST(SummarizeImages, RefusesWhatIsNoBatchOfImages) {
  EXPECT_EQ(code_of([] { summarize_images(at::arange(6, at::kFloat)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { summarize_images(at::arange(6).view({1, 2, 3, 1})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { summarize_images(at::empty({0, 2, 3, 1})); }), ErrorCode::invalid_argument);
}

TEST(EncodePng, IsReadBackAsItWas) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = at::randint(256, {7, 5, channels}, at::kByte);
    EXPECT_TRUE(decode_image(encode_png(image)).equal(image)) << channels;
    EXPECT_TRUE(decode_image(encode_png(image.transpose(0, 1))).equal(image.transpose(0, 1))) << channels;
  }
}

TEST(EncodePng, RefusesOtherTensors) {
  for (const Tensor& image : {at::empty({2, 2}, at::kByte), at::empty({2, 2, 5}, at::kByte), at::empty({2, 2, 3}),
                              at::empty({0, 2, 3}, at::kByte)})
    EXPECT_EQ(code_of([&] { encode_png(image); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tutti::data
