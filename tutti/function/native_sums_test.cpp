#include "tutti/function/native_sums.h"

#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/kernel_bits.h"

namespace tutti {
namespace {

using at::Tensor;

void expect_bits_along(const Tensor& x, const std::vector<int64_t>& axes) {
  const at::IValue dtype;
  expect_kernel_gives(at::sum(x, axes), "aten::sum.dim_IntList", {x, axes, false, dtype});
  expect_kernel_gives(at::mean(x, axes), "aten::mean.dim", {x, axes, false, dtype});
}

void expect_bits_of_all(const Tensor& x) {
  const at::IValue dtype;
  expect_kernel_gives(at::sum(x), "aten::sum", {x, dtype});
  expect_kernel_gives(at::mean(x), "aten::mean", {x, dtype});
  expect_kernel_gives(at::mean(x), "aten::mean.dim", {x, at::IValue(), false, dtype});
}

bool adds_in_vectors_of_avx() { return at::get_cpu_capability().starts_with("AVX"); }

TEST(NativeSums, OfColumnsHaveLibTorchsBits) {
  if (!adds_in_vectors_of_avx()) GTEST_SKIP() << "LibTorch does not use AVX here";
  for (const int64_t rows : {2, 3, 4, 5, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 255, 256, 257, 300, 1000, 4100})
    for (const int64_t columns : {2, 3, 7, 8, 9, 10, 31, 32, 33, 48, 63, 64, 65, 120, 300}) {
      if (rows * columns >= 32768) continue;
      const Tensor numbers = at::randn({rows, columns}) * 100, kind = at::randint(rows * 4, numbers.sizes());
      for (const char* const special : {"none", "infinities", "NaNs"}) {
        const Tensor x = numbers.clone();
        if (special[0] == 'i') x.masked_fill_(kind == 0, INFINITY).masked_fill_(kind == 1, -INFINITY);
        if (special[0] == 'N') x.masked_fill_(kind == 2, std::nanf("")).select(1, 0).fill_(-0.0);
        expect_bits_along(x, {0});
        if (testing::Test::HasFailure()) return;
      }
    }
}

TEST(NativeSums, OfAllHaveLibTorchsBits) {
  if (!adds_in_vectors_of_avx()) GTEST_SKIP() << "LibTorch does not use AVX here";
  for (int64_t count = 1; count < 32768; count += count < 300 ? 1 : count / 7) {
    const Tensor numbers = at::randn({count}) * 100, kind = at::randint(count * 2, numbers.sizes());
    expect_bits_of_all(numbers);
    expect_bits_of_all(at::full_like(numbers, -0.0));
    expect_bits_of_all(numbers.masked_fill(kind == 0, INFINITY));
    expect_bits_along(numbers.view({1, count, 1}), {1});
    expect_bits_along(numbers.view({count, 1}), {-2, 1});
    if (testing::Test::HasFailure()) return;
  }
}

TEST(NativeSums, OfEachAloneAreNoNegativeZero) {
  if (!adds_in_vectors_of_avx()) GTEST_SKIP() << "LibTorch does not use AVX here";
  for (const int64_t count : {1, 3, 8, 33, 400}) {
    const Tensor numbers = at::randn({count, 1, 2}).masked_fill(at::randint(2, {count, 1, 2}) == 0, -0.0);
    expect_bits_along(numbers, {1});
    expect_bits_along(numbers.view({count, 2, 1, 1}), {2, -1});
  }
}

TEST(NativeSums, LeavesOtherSumsToLibTorch) {
  const auto is_taken = [](const Tensor& x, std::vector<int64_t> axes, at::IValue dtype = {}) {
    return native_sums_of("aten::sum.dim_IntList", {x, std::move(axes), false, std::move(dtype)}) != nullptr;
  };
  EXPECT_EQ(is_taken(at::randn({4, 5}), {-2}), adds_in_vectors_of_avx());
  EXPECT_FALSE(is_taken(at::randn({4, 5}), {1}));
  EXPECT_FALSE(is_taken(at::randn({4, 5, 2}), {0}));
  EXPECT_FALSE(is_taken(at::randn({4, 5, 2}), {0, 1}));
  EXPECT_FALSE(is_taken(at::randn({0, 5}), {0, 1}));
  EXPECT_FALSE(is_taken(at::randn({4, 5}).t(), {0}));
  EXPECT_FALSE(is_taken(at::randn({4, 5}), {0}, at::kDouble));
  EXPECT_FALSE(is_taken(at::randn({4, 5}).to(at::kDouble), {0}));
  EXPECT_FALSE(is_taken(at::randn({400, 500}), {0}));
  EXPECT_FALSE(is_taken(at::randn({400, 500}), {}));
}

}  // namespace
}  // namespace tutti
