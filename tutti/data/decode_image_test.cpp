#include "tutti/data/decode_image.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/encode_image.h"
#include "tutti/data/resize_image.h"

namespace tutti::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A picture without edges, which JPEG keeps well.
Tensor gradient(int64_t height, int64_t width, int64_t channels) {
  const Tensor sum = at::arange(height).view({-1, 1, 1}) * 3 + at::arange(width).view({1, -1, 1}) * 2 +
                     at::arange(channels).view({1, 1, -1}) * 20;
  return sum.to(at::kByte);
}

double greatest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  EXPECT_EQ(a.scalar_type(), b.scalar_type());
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

std::string error_of_decoding(const std::string& bytes, const DecodeImageOptions& options = {}) {
  return error_of([&] { decode_image(bytes, options, "x.img"); });
}

TEST(DecodeImage, ReadsPngsOfEveryKindExactly) {
  const auto expect = [](const Tensor& image, const PngForm& form) {
    EXPECT_EQ(greatest_difference(decode_image(png(image, form)), image), 0);
  };
  for (const bool interlaced : {false, true}) {
    expect(gradient(5, 7, 1), {.color_type = PNG_COLOR_TYPE_GRAY, .interlaced = interlaced});
    expect(gradient(5, 7, 2), {.color_type = PNG_COLOR_TYPE_GRAY_ALPHA, .interlaced = interlaced});
    expect(gradient(5, 7, 3), {.color_type = PNG_COLOR_TYPE_RGB, .interlaced = interlaced});
    expect(gradient(5, 7, 4), {.color_type = PNG_COLOR_TYPE_RGB_ALPHA, .interlaced = interlaced});
  }
}

TEST(DecodeImage, ExpandsPalettesAndWideOrNarrowPngs) {
  const Tensor indices = at::arange(2, at::kByte).view({1, 2, 1});
  const std::string colours("\1\2\3\4\5\6", 6);
  const PngForm palette{.color_type = PNG_COLOR_TYPE_PALETTE, .palette = colours};
  EXPECT_EQ(numbers(decode_image(png(indices, palette))), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  const PngForm transparent{.color_type = PNG_COLOR_TYPE_PALETTE, .palette = colours, .alpha = "\7"};
  EXPECT_EQ(numbers(decode_image(png(indices, transparent))), (std::vector<double>{1, 2, 3, 7, 4, 5, 6, 255}));

  const Tensor wide = at::tensor({12, 200, 34, 100}, at::kByte).view({1, 2, 2});  // two bytes a pixel
  EXPECT_EQ(numbers(decode_image(png(wide, {.depth = 16, .color_type = PNG_COLOR_TYPE_GRAY}))),
            (std::vector<double>{12, 34}));
  const Tensor bits = at::full({1, 1, 1}, 0b10110000, at::kByte);  // eight pixels of one bit
  std::string one_bit = png(at::cat({bits, bits, bits, bits, bits, bits, bits, bits}, 1),
                            {.depth = 1, .color_type = PNG_COLOR_TYPE_GRAY});
  EXPECT_EQ(numbers(decode_image(one_bit)), (std::vector<double>{255, 0, 255, 255, 0, 0, 0, 0}));
}

TEST(DecodeImage, GivesTheChannelsThatAreAskedFor) {
  const Tensor colour = at::tensor({255, 0, 0, 0, 255, 0}, at::kByte).view({1, 2, 3});
  const Tensor grey = at::tensor({10, 20}, at::kByte).view({1, 2, 1});
  const PngForm grey_form{.color_type = PNG_COLOR_TYPE_GRAY};
  EXPECT_EQ(numbers(decode_image(png(grey, grey_form), {.channels = 3})),
            (std::vector<double>{10, 10, 10, 20, 20, 20}));
  EXPECT_EQ(numbers(decode_image(png(grey, grey_form), {.channels = 4})),
            (std::vector<double>{10, 10, 10, 255, 20, 20, 20, 255}));
  EXPECT_LE(
      greatest_difference(decode_image(png(colour), {.channels = 1}), at::tensor({76, 150}, at::kByte).view({1, 2, 1})),
      1);  // 0.299 red, 0.587 green
  for (const int channels : {1, 3, 4})
    for (const int64_t own : {1, 3})
      EXPECT_EQ(decode_image(jpeg(gradient(9, 8, own)), {.channels = channels}).sizes(),
                at::IntArrayRef({9, 8, channels}));
}

TEST(DecodeImage, ReadsBaselineAndProgressiveJpegs) {
  for (const bool progressive : {false, true})
    for (const int64_t channels : {1, 3}) {
      const Tensor image = gradient(19, 33, channels);
      EXPECT_LE(greatest_difference(decode_image(jpeg(image, {.progressive = progressive})), image), 6);
    }
}

TEST(DecodeImage, TurnsFourInksIntoThreeColours) {
  const Tensor inks = at::tensor({255, 128, 0, 255}, at::kByte).expand({8, 8, 4});  // inverted, as Adobe's
  const Tensor image = decode_image(jpeg(inks, {.space = JCS_CMYK}));
  EXPECT_LE(greatest_difference(image, at::tensor({255, 128, 0}, at::kByte).expand({8, 8, 3})), 3);
  EXPECT_THAT(error_of_decoding(jpeg(inks, {.space = JCS_CMYK}), {.channels = 1}), StartsWith("invalid_argument"));
}

TEST(DecodeImage, RefusesImagesThatAreTruncatedAnywhere) {
  for (const std::string& whole : {png(gradient(20, 20, 3)), png(gradient(20, 20, 3), {.interlaced = true}),
                                   jpeg(gradient(20, 20, 3)), jpeg(gradient(20, 20, 3), {.progressive = true})}) {
    EXPECT_EQ(error_of_decoding(whole), "no error");
    for (size_t length = 8; length + 2 < whole.size(); ++length)
      EXPECT_THAT(error_of_decoding(whole.substr(0, length)), StartsWith("data_loss: decode_image: 'x.img'")) << length;
  }
}

TEST(DecodeImage, RefusesAPngWithADamagedChecksum) {
  std::string damaged = png(gradient(4, 4, 3));
  damaged[damaged.size() - 20] = static_cast<char>(damaged[damaged.size() - 20] ^ 1);
  EXPECT_THAT(error_of_decoding(damaged), StartsWith("data_loss"));
}

TEST(DecodeImage, RefusesABombBeforeItTakesMemory) {
  const std::string small = png(at::zeros({1, 1, 3}, at::kByte));
  EXPECT_THAT(error_of_decoding(png(at::zeros({100, 100, 3}, at::kByte)), {.max_pixels = 9999}),
              AllOf(StartsWith("data_loss"), HasSubstr("100 x 100 pixels"), HasSubstr("max_pixels")));
  EXPECT_THAT(error_of_decoding(jpeg(at::zeros({100, 100, 3}, at::kByte)), {.max_pixels = 9999}),
              HasSubstr("100 x 100 pixels"));
  // A header of 60000 pixels before the data of one.
  const Tensor wide = at::zeros({1, 60000, 3}, at::kByte);
  std::string bomb = png(wide).substr(0, 33) + small.substr(33);
  EXPECT_THAT(error_of_decoding(bomb), StartsWith("data_loss"));
  EXPECT_THAT(error_of_decoding(png(at::zeros({1, 1, 1}, at::kByte), {.color_type = PNG_COLOR_TYPE_GRAY}) + "more"),
              "no error");  // bytes behind the image belong to no one
}

TEST(DecodeImage, SaysWhatIsNoImage) {
  EXPECT_THAT(error_of_decoding(""), AllOf(StartsWith("invalid_argument: decode_image: 'x.img' (0 bytes)"),
                                           HasSubstr("neither a JPEG nor a PNG")));
  EXPECT_THAT(error_of_decoding("GIF89a..."), HasSubstr("a GIF"));
  EXPECT_THAT(error_of_decoding("BM......"), HasSubstr("a BMP"));
  EXPECT_THAT(error_of_decoding("hello, world"), HasSubstr("12 bytes"));
  EXPECT_THAT(error_of_decoding(png(gradient(2, 2, 3)), {.channels = 2}), HasSubstr("2 channels"));
}

// Expected: tf.image.resize(x, size), which samples between the centres of pixels.
TEST(ResizeImage, InterpolatesBetweenTheCentresOfPixels) {
  const Tensor image = at::tensor({0., 10., 20., 30.}, at::kFloat).view({1, 4, 1});
  EXPECT_EQ(numbers(resize_image(image, 1, 2)), (std::vector<double>{5, 25}));
  EXPECT_EQ(numbers(resize_image(image, 1, 8)), (std::vector<double>{0, 2.5, 7.5, 12.5, 17.5, 22.5, 27.5, 30}));
  const Tensor longer = at::arange(8, at::kByte).view({1, 8, 1}) * 8;
  EXPECT_EQ(numbers(resize_image(longer, 1, 2)), (std::vector<double>{12, 44}));  // no antialiasing
  EXPECT_EQ(resize_image(gradient(5, 6, 3).unsqueeze(0), 7, 4).sizes(), at::IntArrayRef({1, 7, 4, 3}));
  EXPECT_EQ(resize_image(gradient(5, 6, 3), 5, 6).scalar_type(), at::kFloat);
  EXPECT_EQ(resize_image(at::zeros({0, 6, 6, 3}), 4, 5).sizes(), at::IntArrayRef({0, 4, 5, 3}));
  EXPECT_THAT(error_of([&] { resize_image(at::zeros({2, 2}), 1, 1); }), StartsWith("invalid_argument"));
  EXPECT_THAT(error_of([&] { resize_image(image, 0, 1); }), StartsWith("invalid_argument"));
}

}  // namespace
}  // namespace tutti::data
