#include "tutti/function/matrix_product.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <random>

#include "tutti/function/native_product.h"

namespace tutti {
namespace {

using at::Tensor;

// In the order that matrix_product.h promises, one element after the other.
Tensor multiplied_one_by_one(const Tensor& a, const Tensor& b, const Tensor& bias, int64_t piece) {
  const Tensor result = at::empty({a.size(0), b.size(1)});
  const auto *x = a.const_data_ptr<float>(), *y = b.const_data_ptr<float>();
  for (int64_t row = 0; row < a.size(0); ++row)
    for (int64_t column = 0; column < b.size(1); ++column) {
      float sum = bias.defined() ? bias.const_data_ptr<float>()[column] : 0;
      for (int64_t first = 0; first < a.size(1); first += piece) {
        float of_piece = 0;
        for (int64_t i = first; i < std::min(a.size(1), first + piece); ++i)
          of_piece =
              std::fma(x[row * a.stride(0) + i * a.stride(1)], y[i * b.stride(0) + column * b.stride(1)], of_piece);
        sum += of_piece;
      }
      result.mutable_data_ptr<float>()[row * b.size(1) + column] = sum;
    }
  return result;
}

struct Product {
  Tensor a, b, bias;

  static Product random(std::mt19937& random, int64_t most) {
    const auto size = [&] { return 1 + static_cast<int64_t>(random() % static_cast<unsigned>(most)); };
    const int64_t rows = size(), columns = size(), depth = size() + (random() % 4 == 0 ? 400 : 0);
    return {random() % 2 ? at::randn({rows, depth}) : at::randn({depth, rows}).t(),
            random() % 2 ? at::randn({depth, columns}) : at::randn({columns, depth}).t(),
            random() % 2 ? at::randn({columns}) : Tensor()};
  }
  torch::jit::Stack arguments() const {
    return bias.defined() ? torch::jit::Stack{bias, a, b, at::Scalar(1), at::Scalar(1)} : torch::jit::Stack{a, b};
  }
  const char* op() const { return bias.defined() ? "aten::addmm" : "aten::mm"; }
  Tensor by_libtorch() const { return bias.defined() ? at::addmm(bias, a, b) : at::mm(a, b); }
};

bool have_the_same_bits(const Tensor& x, const Tensor& y) {
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

TEST(MatrixProduct, AddsInTheOrderThatItPromises) {
  if (!multiplies_in_vectors()) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto [a, b, bias] = Product::random(random, 70);
    const auto piece = std::min<int64_t>(192, 1 + static_cast<int64_t>(random() % static_cast<unsigned>(a.size(1))));
    const Tensor own = at::empty({a.size(0), b.size(1)}).fill_(7);
    multiply({.a = {a.const_data_ptr<float>(), a.stride(0), a.stride(1)},
              .b = {b.const_data_ptr<float>(), b.stride(0), b.stride(1)},
              .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
              .result = own.mutable_data_ptr<float>(),
              .rows = a.size(0),
              .columns = b.size(1),
              .depth = a.size(1),
              .piece = piece});
    EXPECT_TRUE(have_the_same_bits(own, multiplied_one_by_one(a, b, bias, piece)))
        << a.sizes() << a.strides() << " by " << b.sizes() << b.strides() << ", " << piece;
  }
}

// Numbers whose products become zeros of either sign, zeros, and such as are infinite or none.
Product special(const Product& product, int kind) {
  Product made{product.a.clone(), product.b.clone(), product.bias.defined() ? product.bias.clone() : Tensor()};
  switch (kind) {
    case 0: made.a.mul_(1e-20).mul_(1e-16), made.b.mul_(1e-9); break;
    case 1: made.a.mul_(0); break;
    case 2: made.a.mul_(0), made.b.mul_(0); break;
    case 3: made.a.select(0, 0).fill_(INFINITY), made.b.select(0, 0).fill_(std::nanf("")); break;
    default: return product;
  }
  if (made.bias.defined() && kind < 3) made.bias.mul_(0);
  return made;
}

// Whatever passed its trial, on other numbers.
TEST(NativeProduct, HasLibTorchsBitsWhereItIsTaken) {
  if (!multiplies_in_vectors()) GTEST_SKIP() << "no AVX-512";
  std::mt19937 random(2);
  int num_taken = 0;
  for (int round = 0; round < 400; ++round) {
    const Product product = Product::random(random, round % 2 ? 200 : 30);
    const NativeKernel kernel = native_product_of(product.op(), product.arguments());
    if (!kernel) continue;
    ++num_taken;
    for (int kind = 0; kind < 5; ++kind) {
      const Product tried = special(product, kind);
      torch::jit::Stack arguments = tried.arguments();
      const Tensor own = at::empty({tried.a.size(0), tried.b.size(1)});
      arguments.emplace_back(own);
      kernel(arguments);
      EXPECT_TRUE(have_the_same_bits(own, tried.by_libtorch()))
          << tried.a.sizes() << tried.a.strides() << " by " << tried.b.sizes() << tried.b.strides() << ", kind "
          << kind;
    }
  }
  std::cout << num_taken << " of 400 products are taken\n";
}

TEST(NativeProduct, LeavesOtherProductsToLibTorch) {
  const auto is_taken = [](const char* op, const torch::jit::Stack& arguments) {
    return native_product_of(op, arguments) != nullptr;
  };
  const Tensor a = at::randn({64, 300}), b = at::randn({300, 64}), bias = at::randn({64});
  const at::Scalar one(1), two(2);
  EXPECT_FALSE(is_taken("aten::mm", {a.to(at::kDouble), b.to(at::kDouble)}));
  EXPECT_FALSE(is_taken("aten::mm", {a.slice(1, 0, 200), b.slice(0, 0, 200)}));
  EXPECT_FALSE(is_taken("aten::addmm", {bias, a, b, one, two}));
  EXPECT_FALSE(is_taken("aten::addmm", {bias, a, b, two, one}));
  EXPECT_FALSE(is_taken("aten::addmm", {at::randn({64, 64}), a, b, one, one}));
  EXPECT_FALSE(is_taken("aten::addmm", {at::randn({1}), a, b, one, one}));
}

}  // namespace
}  // namespace tutti
