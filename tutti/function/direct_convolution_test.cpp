#include "tutti/function/direct_convolution.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tutti/function/matrix_product.h"

namespace tutti {
namespace {

using at::Tensor;

// A small convolution whose elements are computed one by one, in the order that the header promises.
class OneByOne {
 public:
  explicit OneByOne(const ConvolutionShape& shape) : shape_(shape) {}

  Tensor images() const { return at::randn({shape_.images, shape_.in_channels, shape_.height, shape_.width}); }
  Tensor weights() const {
    return at::randn({shape_.out_channels, shape_.in_channels, shape_.kernel_height, shape_.kernel_width});
  }
  Tensor results() const { return at::randn({shape_.images, shape_.out_channels, shape_.rows(), shape_.columns()}); }

  Tensor convolved(const Tensor& images, const Tensor& weights, const Tensor& bias) const {
    return filled(results(), [&](int64_t n, int64_t out, int64_t y, int64_t x) {
      float sum = 0;
      for_taps([&](int64_t row, int64_t column) {
        for (int64_t in = 0; in < shape_.in_channels; ++in)
          sum = std::fma(at(images, n, in, y + row, x + column), at(weights, out, in, row, column), sum);
      });
      return bias.defined() ? sum + bias.const_data_ptr<float>()[out] : sum;
    });
  }

  Tensor gradient_of_input(const Tensor& gradient, const Tensor& weights) const {
    return filled(images(), [&](int64_t n, int64_t in, int64_t y, int64_t x) {
      float sum = 0;
      for_taps([&](int64_t row, int64_t column) {
        if (y < row || y - row >= shape_.rows() || x < column || x - column >= shape_.columns()) return;
        for (int64_t out = 0; out < shape_.out_channels; ++out)
          sum = std::fma(at(gradient, n, out, y - row, x - column), at(weights, out, in, row, column), sum);
      });
      return sum;
    });
  }

  Tensor gradient_of_weights(const Tensor& gradient, const Tensor& images) const {
    return filled(weights(), [&](int64_t out, int64_t in, int64_t row, int64_t column) {
      float sum = 0;
      for_results([&](int64_t n, int64_t y, int64_t x) {
        sum = std::fma(at(gradient, n, out, y, x), at(images, n, in, y + row, x + column), sum);
      });
      return sum;
    });
  }

  Tensor gradient_of_bias(const Tensor& gradient) const {
    const Tensor made = at::empty({shape_.out_channels});
    for (int64_t out = 0; out < shape_.out_channels; ++out) {
      float sum = 0;
      for_results([&](int64_t n, int64_t y, int64_t x) { sum += at(gradient, n, out, y, x); });
      made.mutable_data_ptr<float>()[out] = sum;
    }
    return made;
  }

 private:
  static float at(const Tensor& x, int64_t a, int64_t b, int64_t c, int64_t d) {
    return x.const_data_ptr<float>()[((a * x.size(1) + b) * x.size(2) + c) * x.size(3) + d];
  }
  template <class F>
  static Tensor filled(const Tensor& like, F element) {
    float* to = like.mutable_data_ptr<float>();
    for (int64_t a = 0; a < like.size(0); ++a)
      for (int64_t b = 0; b < like.size(1); ++b)
        for (int64_t c = 0; c < like.size(2); ++c)
          for (int64_t d = 0; d < like.size(3); ++d) *to++ = element(a, b, c, d);
    return like;
  }
  template <class F>
  void for_taps(F f) const {
    for (int64_t row = 0; row < shape_.kernel_height; ++row)
      for (int64_t column = 0; column < shape_.kernel_width; ++column) f(row, column);
  }
  template <class F>
  void for_results(F f) const {
    for (int64_t n = 0; n < shape_.images; ++n)
      for (int64_t y = 0; y < shape_.rows(); ++y)
        for (int64_t x = 0; x < shape_.columns(); ++x) f(n, y, x);
  }

  ConvolutionShape shape_;
};

// Of memory of exactly that size, so that AddressSanitizer sees what reads or writes beyond it.
struct Memory {
  explicit Memory(const Tensor& of) : values(of.const_data_ptr<float>(), of.const_data_ptr<float>() + of.numel()) {}
  std::vector<float> values;

  bool has_the_bits_of(const Tensor& wanted) const {
    return std::memcmp(values.data(), wanted.const_data_ptr(), wanted.nbytes()) == 0;
  }
};

void expect_the_promised_order(const ConvolutionShape& shape) {
  SCOPED_TRACE(testing::Message() << shape.images << " images of " << shape.in_channels << " x " << shape.height
                                  << " x " << shape.width << ", kernels of " << shape.out_channels << " x "
                                  << shape.kernel_height << " x " << shape.kernel_width);
  const OneByOne slow(shape);
  const Tensor images = slow.images(), weights = slow.weights(), bias = at::randn({shape.out_channels});
  const Tensor gradient = slow.results();
  DirectConvolution fast(shape);
  const Memory x(images), w(weights), b(bias), g(gradient);
  Memory result(slow.results()), of_images(slow.images()), of_weights(slow.weights()), of_bias(bias);
  for (const bool has_bias : {true, false}) {
    fast.convolve(x.values.data(), w.values.data(), has_bias ? b.values.data() : nullptr, result.values.data());
    EXPECT_TRUE(result.has_the_bits_of(slow.convolved(images, weights, has_bias ? bias : Tensor())));
  }
  fast.gradient_of_input(g.values.data(), w.values.data(), of_images.values.data());
  EXPECT_TRUE(of_images.has_the_bits_of(slow.gradient_of_input(gradient, weights)));
  fast.gradient_of_weights(g.values.data(), x.values.data(), of_weights.values.data(), of_bias.values.data());
  EXPECT_TRUE(of_weights.has_the_bits_of(slow.gradient_of_weights(gradient, images)));
  EXPECT_TRUE(of_bias.has_the_bits_of(slow.gradient_of_bias(gradient)));
}

TEST(DirectConvolution, AddsInTheOrderThatItPromises) {
  if (!multiplies_in_vectors()) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(1);
  const auto size = [&](unsigned most) { return 1 + static_cast<int64_t>(random() % most); };
  for (int round = 0; round < 60; ++round) {
    ConvolutionShape shape{size(2), size(4), 0, 0, size(19), size(5), size(20)};
    shape.height = shape.kernel_height - 1 + size(12);
    shape.width = shape.kernel_width - 1 + size(round % 2 ? 5 : 20);
    expect_the_promised_order(shape);
  }
  expect_the_promised_order({2, 6, 12, 12, 16, 5, 5});
  expect_the_promised_order({1, 1, 5, 5, 6, 5, 5});
  expect_the_promised_order({1, 1, 1, 1, 1, 1, 1});
}

// What a chain leaves out must not make a zero of a NaN, nor another zero.
TEST(DirectConvolution, LeavesOutWhatLiesOutside) {
  if (!multiplies_in_vectors()) GTEST_SKIP() << "no AVX-512";
  const ConvolutionShape shape{1, 1, 4, 4, 1, 3, 3};
  const OneByOne slow(shape);
  const Tensor gradient = at::empty({1, 1, 2, 2}).fill_(1e-30), weights = at::empty({1, 1, 3, 3}).fill_(-1e-30);
  weights.mutable_data_ptr<float>()[8] = std::numeric_limits<float>::infinity();
  Memory result(slow.images());
  DirectConvolution(shape).gradient_of_input(gradient.const_data_ptr<float>(), weights.const_data_ptr<float>(),
                                             result.values.data());
  EXPECT_TRUE(result.has_the_bits_of(slow.gradient_of_input(gradient, weights)));
  EXPECT_TRUE(std::signbit(result.values[0]) && result.values[0] == 0);
  EXPECT_EQ(result.values[15], std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace tutti
