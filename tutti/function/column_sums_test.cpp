#include "tutti/function/column_sums.h"

#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tutti {
namespace {

using at::Tensor;

void expect_bits_of(const Tensor& x, const char* op, const Tensor& wanted) {
  torch::jit::Stack arguments{x, std::vector<int64_t>{0}, false, at::IValue()};
  const NativeKernel kernel = native_column_sums_of(op, arguments);
  ASSERT_TRUE(kernel);
  const Tensor own = at::empty_like(wanted).fill_(7);
  arguments.emplace_back(own);
  kernel(arguments);
  EXPECT_EQ(std::memcmp(own.const_data_ptr(), wanted.const_data_ptr(), wanted.nbytes()), 0)
      << op << x.sizes() << own << wanted;
}

bool adds_in_vectors_of_avx() { return at::get_cpu_capability().starts_with("AVX"); }

TEST(ColumnSums, HaveLibTorchsBits) {
  if (!adds_in_vectors_of_avx()) GTEST_SKIP() << "LibTorch does not use AVX here";
  for (const int64_t rows : {2, 3, 4, 5, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 255, 256, 257, 300, 1000, 4100})
    for (const int64_t columns : {2, 3, 7, 8, 9, 10, 31, 32, 33, 48, 63, 64, 65, 120, 300}) {
      if (rows * columns >= 32768) continue;
      const Tensor numbers = at::randn({rows, columns}) * 100, kind = at::randint(rows * 4, numbers.sizes());
      for (const char* const special : {"none", "infinities", "NaNs"}) {
        const Tensor x = numbers.clone();
        if (special[0] == 'i') x.masked_fill_(kind == 0, INFINITY).masked_fill_(kind == 1, -INFINITY);
        if (special[0] == 'N') x.masked_fill_(kind == 2, std::nanf("")).select(1, 0).fill_(-0.0);
        expect_bits_of(x, "aten::sum.dim_IntList", at::sum(x, 0));
        expect_bits_of(x, "aten::mean.dim", at::mean(x, 0));
        if (testing::Test::HasFailure()) return;
      }
    }
}

TEST(ColumnSums, LeavesOtherSumsToLibTorch) {
  const auto is_taken = [](const Tensor& x, std::vector<int64_t> axes, at::IValue dtype = {}) {
    return native_column_sums_of("aten::sum.dim_IntList", {x, std::move(axes), false, std::move(dtype)}) != nullptr;
  };
  EXPECT_EQ(is_taken(at::randn({4, 5}), {-2}), adds_in_vectors_of_avx());
  EXPECT_FALSE(is_taken(at::randn({4, 5}), {1}));
  EXPECT_FALSE(is_taken(at::randn({4, 5}), {0, 1}));
  EXPECT_FALSE(is_taken(at::randn({4, 5}), {}));
  EXPECT_FALSE(is_taken(at::randn({1, 5}), {0}));
  EXPECT_FALSE(is_taken(at::randn({5, 1}), {0}));
  EXPECT_FALSE(is_taken(at::randn({4, 5}).t(), {0}));
  EXPECT_FALSE(is_taken(at::randn({4, 5}), {0}, at::kDouble));
  EXPECT_FALSE(is_taken(at::randn({4, 5}).to(at::kDouble), {0}));
  EXPECT_FALSE(is_taken(at::randn({400, 500}), {0}));
}

}  // namespace
}  // namespace tutti
