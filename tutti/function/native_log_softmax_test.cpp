#include "tutti/function/native_log_softmax.h"

#include <ATen/TensorOperators.h>
#include <ATen/Version.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/kernel_bits.h"

namespace tutti {
namespace {

using at::Tensor;

// Some of them zeros, infinite or none.
Tensor any_numbers(at::IntArrayRef sizes, bool special) {
  Tensor x = at::randn(sizes) * 8;
  if (!special) return x;
  const Tensor kind = at::randint(40, sizes);
  x.masked_fill_(kind == 0, -INFINITY).masked_fill_(kind == 1, INFINITY).masked_fill_(kind == 2, std::nanf(""));
  return x.masked_fill_(kind == 3, -0.0).masked_fill_(kind == 4, 0.0).masked_fill_(kind == 5, -200);
}

TEST(NativeLogSoftmax, HasLibTorchsBits) {
  if (at::get_cpu_capability() != "AVX512") GTEST_SKIP() << "LibTorch does not use AVX-512 here";
  for (int64_t classes = 1; classes < 16; ++classes)
    for (const int64_t rows : {1, 2, 15, 16, 17, 64, 500})
      for (const bool special : {false, true}) {
        const Tensor x = any_numbers({rows, classes}, special), result = at::_log_softmax(x, 1, false);
        expect_kernel_gives(result, "aten::_log_softmax", {x, 1, false});
        const Tensor gradient = any_numbers({rows, classes}, special);
        expect_kernel_gives(at::_log_softmax_backward_data(gradient, result, 1, at::kFloat),
                            "aten::_log_softmax_backward_data", {gradient, result, 1, at::kFloat});
        if (testing::Test::HasFailure()) return;
      }
}

TEST(NativeLogSoftmax, LeavesOthersToLibTorch) {
  const auto is_taken = [](const Tensor& x, int64_t axis) {
    return native_log_softmax_of("aten::_log_softmax", {x, axis, false}) != nullptr;
  };
  EXPECT_FALSE(is_taken(at::randn({4, 16}), 1));
  EXPECT_FALSE(is_taken(at::randn({4, 5}), 0));
  EXPECT_FALSE(is_taken(at::randn({5, 4}).t(), 1));
  EXPECT_FALSE(is_taken(at::randn({4, 5}).to(at::kDouble), 1));
}

}  // namespace
}  // namespace tutti
