#include "tutti/function/native_kernel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/select_backward.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tutti/function/pointwise_kernel.h"

namespace tutti {
namespace {

using at::Tensor;

torch::jit::Stack pooling(const Tensor& x, bool ceils) {
  const std::vector<int64_t> two{2, 2}, zero{0, 0}, one{1, 1};
  return {x, two, two, zero, one, ceils};
}

void expect_pooled_as_by_libtorch(const Tensor& x) {
  const auto [values, indices] = at::max_pool2d_with_indices(x, {2, 2}, {2, 2});
  torch::jit::Stack arguments = pooling(x, false);
  const NativeKernel kernel = native_kernel_of("aten::max_pool2d_with_indices", arguments);
  ASSERT_TRUE(kernel);
  const Tensor own = at::empty_like(values), where = at::empty_like(indices);
  arguments.insert(arguments.end(), {own, where});
  kernel(arguments);
  EXPECT_EQ(std::memcmp(own.const_data_ptr(), values.const_data_ptr(), values.nbytes()), 0) << x;
  EXPECT_EQ(std::memcmp(where.const_data_ptr(), indices.const_data_ptr(), indices.nbytes()), 0) << x;
}

TEST(NativeKernel, PoolsAsLibTorchDoes) {
  for (const int64_t height : {2, 3, 6, 11})
    for (const int64_t width : {2, 5, 8, 17, 24, 26, 64, 70}) {
      expect_pooled_as_by_libtorch(at::randn({3, 2, height, width}));
      expect_pooled_as_by_libtorch(at::randint(3, {5, height, width}).to(at::kFloat));  // equal ones
    }
}

TEST(NativeKernel, PoolsImagesWithTheirChannelsLastAsLibTorchDoes) {
  for (const int64_t channels : {2, 3, 8, 32, 65, 130})
    for (const int64_t width : {2, 5, 8}) {
      const auto images = [&](const Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); };
      expect_pooled_as_by_libtorch(images(at::randn({3, channels, 7, width})));
      expect_pooled_as_by_libtorch(images(at::randint(3, {2, channels, 4, width}).to(at::kFloat)));
    }
}

TEST(NativeKernel, PoolsNaNsAndInfinitiesAsLibTorchDoes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 20; ++i) {
    const Tensor x = at::randn({2, 3, 6, 10}), kind = at::randint(5, x.sizes());
    x.masked_fill_(kind == 0, kNaN).masked_fill_(kind == 1, -kInfinity).masked_fill_(kind == 2, kInfinity);
    x.select(1, 0).fill_(-kInfinity);
    expect_pooled_as_by_libtorch(x);
    expect_pooled_as_by_libtorch(x.contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(NativeKernel, LeavesOtherPoolingsToLibTorch) {
  const std::string op = "aten::max_pool2d_with_indices";
  EXPECT_FALSE(native_kernel_of(op, pooling(at::randn({2, 2, 4, 4}).to(at::kDouble), false)));
  EXPECT_FALSE(native_kernel_of(op, pooling(at::randn({2, 2, 4, 4}).transpose(2, 3), false)));
  EXPECT_FALSE(native_kernel_of(op, pooling(at::randn({2, 2, 4, 5}), true)));
  EXPECT_TRUE(native_kernel_of(op, pooling(at::randn({2, 2, 4, 6}), true)));
  auto three = pooling(at::randn({2, 2, 6, 6}), false);
  three[1] = std::vector<int64_t>{3, 3};
  EXPECT_FALSE(native_kernel_of(op, three));
}

void expect_spread_as_by_libtorch(const Tensor& gradient, const Tensor& x, const Tensor& places) {
  const Tensor wanted =
      at::max_pool2d_with_indices_backward(gradient, x, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, places);
  const std::vector<int64_t> two{2, 2}, zero{0, 0}, one{1, 1};
  torch::jit::Stack arguments{gradient, x, two, two, zero, one, false, places};
  const NativeKernel kernel = native_kernel_of("aten::max_pool2d_with_indices_backward", arguments);
  ASSERT_TRUE(kernel);
  const Tensor own = at::empty(x.sizes()).fill_(7);
  arguments.push_back(own);
  kernel(arguments);
  EXPECT_EQ(std::memcmp(own.const_data_ptr(), wanted.const_data_ptr(), wanted.nbytes()), 0) << gradient << places;
}

TEST(NativeKernel, SpreadsGradientsOfPoolingAsLibTorchDoes) {
  for (const int64_t height : {2, 3, 8, 11})
    for (const int64_t width : {2, 5, 8, 17, 26, 64, 70}) {
      const Tensor x = at::randn({3, 2, height, width});
      const Tensor places = std::get<1>(at::max_pool2d_with_indices(x, {2, 2}, {2, 2}));
      const Tensor gradient = at::randn(places.sizes()), kind = at::randint(6, places.sizes());
      gradient.masked_fill_(kind == 0, -0.0).masked_fill_(kind == 1, 0.0);
      gradient.masked_fill_(kind == 2, std::numeric_limits<float>::quiet_NaN());
      expect_spread_as_by_libtorch(gradient, x, places);
      expect_spread_as_by_libtorch(gradient, x, at::zeros_like(places));  // all of a plane in its first place
      expect_spread_as_by_libtorch(gradient, x, at::randint(height * width, places.sizes()));
    }
}

torch::jit::Stack variance_of(const Tensor& x, std::vector<int64_t> axes, double correction) {
  return {x, std::move(axes), at::Scalar(correction), false};
}

TEST(NativeKernel, TakesVariancesOfColumnsAsLibTorchDoes) {
  if (!has_fused_multiply_add()) GTEST_SKIP() << "no fused multiply-add";
  for (const int64_t rows : {1, 2, 3, 8, 64, 1000})
    for (const int64_t columns : {1, 2, 15, 16, 17, 48, 100})
      for (const double correction : {0.0, 0.5, 1.0}) {
        if (static_cast<double>(rows) <= correction) continue;
        Tensor x = at::randn({rows, columns}) * 10 + 3;
        if (columns == 17) x.select(1, 3).fill_(std::numeric_limits<float>::infinity());
        const std::vector<int64_t> axes{0};
        const auto [variance, mean] =
            at::var_mean(x, at::IntArrayRef(axes), std::optional<at::Scalar>(correction), false);
        torch::jit::Stack arguments = variance_of(x, {0}, correction);
        const NativeKernel kernel = native_kernel_of("aten::var_mean.correction", arguments);
        ASSERT_TRUE(kernel);
        const Tensor own_variance = at::empty({columns}), own_mean = at::empty({columns});
        arguments.insert(arguments.end(), {own_variance, own_mean});
        kernel(arguments);
        EXPECT_EQ(std::memcmp(own_variance.const_data_ptr(), variance.const_data_ptr(), variance.nbytes()), 0)
            << rows << " x " << columns << ": " << own_variance << variance;
        EXPECT_EQ(std::memcmp(own_mean.const_data_ptr(), mean.const_data_ptr(), mean.nbytes()), 0)
            << rows << " x " << columns << ": " << own_mean << mean;
      }
}

TEST(NativeKernel, LeavesOtherVariancesToLibTorch) {
  const std::string op = "aten::var_mean.correction";
  EXPECT_FALSE(native_kernel_of(op, variance_of(at::randn({4, 3}), {1}, 0)));
  EXPECT_FALSE(native_kernel_of(op, variance_of(at::randn({1, 3}), {0}, 1)));
  EXPECT_FALSE(native_kernel_of(op, variance_of(at::randn({4, 3}), {0, 1}, 0)));
  EXPECT_FALSE(native_kernel_of(op, variance_of(at::randn({4, 3}).t(), {0}, 0)));
  EXPECT_FALSE(native_kernel_of(op, variance_of(at::randn({4, 3, 2}), {0}, 0)));
  EXPECT_FALSE(native_kernel_of(op, variance_of(at::randn({4, 3}).to(at::kDouble), {0}, 0)));
}

// What LibTorch's op gives, and what the library's own kernel writes.
void expect_bits(const std::string& op, torch::jit::Stack arguments, const Tensor& wanted) {
  const NativeKernel kernel = native_kernel_of(op, arguments);
  ASSERT_TRUE(kernel) << op << wanted.sizes();
  const Tensor own = at::empty_like(wanted).fill_(7);
  arguments.emplace_back(own);
  kernel(arguments);
  EXPECT_EQ(std::memcmp(own.const_data_ptr(), wanted.const_data_ptr(), wanted.nbytes()), 0) << op << wanted.sizes();
}

torch::jit::Stack gradient_of_an_embedding(const Tensor& gradient, const Tensor& indices, int64_t padding) {
  return {gradient, indices, /*num_weights=*/50, padding, /*scale_grad_by_freq=*/false};
}

TEST(NativeKernel, AddsGradientsOfAnEmbeddingAsLibTorchDoes) {
  for (const int64_t width : {1, 3, 16, 33})
    for (const int64_t padding : {-1, 7}) {
      const Tensor plain = at::randn({6, 5, 4, width}), indices = at::randint(50, {6, 5, 4});
      const Tensor expanded = at::randn({1, 1, width}).expand({6, 5, width});
      const Tensor turned = at::randn({5, 6, 4, width}).transpose(0, 1), one_axis = at::randn({20, 2 * width});
      plain.select(0, 1).masked_fill_(at::randn({5, 4, width}) > 1, -0.0);
      indices[0][0][0] = 60;  // LibTorch leaves out what is no row of the weight
      indices[0][0][1] = -3;
      for (const auto& [gradient, where] : {std::pair(plain, indices), std::pair(turned, indices),
                                            std::pair(expanded, indices.select(2, 0).contiguous()),
                                            std::pair(one_axis.slice(1, 0, width), indices.view(-1).slice(0, 0, 20))}) {
        const Tensor wanted = at::embedding_dense_backward(gradient, where, 50, padding, false);
        expect_bits("aten::embedding_dense_backward", gradient_of_an_embedding(gradient, where, padding), wanted);
      }
    }
}

TEST(NativeKernel, LooksUpEmbeddingsAsLibTorchDoes) {
  const std::string op = "aten::embedding";
  const Tensor weight = at::randn({50, 7});
  const auto looked_up = [](const Tensor& from, const Tensor& indices) {
    return torch::jit::Stack{from, indices, -1, false, false};
  };
  for (const Tensor& indices : {at::randint(50, {4, 3}), at::randint(50, {2, 1, 5}), at::zeros({}, at::kLong)})
    expect_bits(op, looked_up(weight, indices), at::embedding(weight, indices));
  auto wrong = looked_up(weight, at::full({1}, 50, at::kLong));
  const NativeKernel kernel = native_kernel_of(op, wrong);
  wrong.emplace_back(at::empty({1, 7}));
  EXPECT_THROW(kernel(wrong), c10::IndexError);
  EXPECT_FALSE(native_kernel_of(op, looked_up(weight.t(), at::randint(7, {4}))));
  EXPECT_FALSE(native_kernel_of(op, looked_up(weight, at::randint(50, {4}).to(at::kInt))));
  EXPECT_FALSE(native_kernel_of(op, looked_up(weight.to(at::kDouble), at::randint(50, {4}))));
}

TEST(NativeKernel, SpreadsGradientsOfASelectionAsLibTorchDoes) {
  const std::vector<int64_t> sizes{3, 4, 5};
  for (const int64_t axis : {0, 1, 2, -1, -3})
    for (const int64_t index : {0, 2, -1, -3}) {
      const Tensor gradient = at::randn(at::empty(sizes).select(axis, index).sizes());
      expect_bits("aten::select_backward", {gradient, sizes, axis, index},
                  at::select_backward(gradient, sizes, axis, index));
      EXPECT_FALSE(native_kernel_of("aten::select_backward", {gradient.t(), sizes, axis, index}));
      EXPECT_FALSE(native_kernel_of("aten::select_backward", {gradient, sizes, axis, 5}));
      EXPECT_FALSE(native_kernel_of("aten::select_backward", {gradient, sizes, 3, index}));
    }
}

TEST(NativeKernel, LeavesOtherGradientsOfEmbeddingsToLibTorch) {
  const std::string op = "aten::embedding_dense_backward";
  const Tensor gradient = at::randn({4, 3}), indices = at::randint(50, {4});
  EXPECT_TRUE(native_kernel_of(op, gradient_of_an_embedding(gradient, indices, -1)));
  EXPECT_FALSE(native_kernel_of(op, gradient_of_an_embedding(at::randn({3, 4}).t(), indices, -1)));
  EXPECT_FALSE(native_kernel_of(op, gradient_of_an_embedding(gradient.to(at::kDouble), indices, -1)));
  EXPECT_FALSE(native_kernel_of(op, gradient_of_an_embedding(gradient, indices.to(at::kInt), -1)));
  EXPECT_FALSE(native_kernel_of(op, gradient_of_an_embedding(gradient, at::randint(50, {2, 2}), -1)));
  EXPECT_FALSE(native_kernel_of(op, gradient_of_an_embedding(gradient.slice(0, 0, 0), indices.slice(0, 0, 0), -1)));
  auto scaled = gradient_of_an_embedding(gradient, indices, -1);
  scaled[4] = true;
  EXPECT_FALSE(native_kernel_of(op, scaled));
}

}  // namespace
}  // namespace tutti
