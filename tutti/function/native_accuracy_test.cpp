#include "tutti/function/native_accuracy.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_to_copy.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/kernel_bits.h"

namespace tutti {
namespace {

using at::Tensor;

torch::jit::Stack copy_of(const Tensor& x, at::ScalarType dtype) {
  return {x, dtype, at::IValue(), at::IValue(), at::IValue(), false, at::IValue()};
}

TEST(NativeAccuracy, FindsTheFirstOfTheGreatest) {
  for (const int64_t rows : {1, 5, 64, 300})
    for (const int64_t classes : {1, 2, 3, 10, 33}) {
      const Tensor x = at::randint(-2, 3, {rows, classes}).to(at::kFloat), kind = at::randint(9, x.sizes());
      for (const Tensor& numbers : {x, x.masked_fill(kind == 0, std::nanf("")), x.masked_fill(kind < 2, -INFINITY),
                                    x.masked_fill(x == 0, -0.0)})
        for (const int64_t axis : {1, -1})
          for (const bool keeps : {false, true})
            expect_kernel_gives(at::argmax(numbers, axis, keeps), "aten::argmax", {numbers, axis, keeps});
    }
}

TEST(NativeAccuracy, ComparesLabelsAndCountsTruthValues) {
  for (const int64_t count : {1, 7, 64, 1000}) {
    const Tensor a = at::randint(3, {count}, at::kLong), b = at::randint(3, {count}, at::kLong);
    const Tensor equal = at::eq(a, b);
    expect_kernel_gives(equal, "aten::eq.Tensor", {a, b});
    expect_kernel_gives(equal.to(at::kFloat), "aten::_to_copy", copy_of(equal, at::kFloat));
  }
}

TEST(NativeAccuracy, LeavesOthersToLibTorch) {
  const Tensor x = at::randint(5, {4, 6}).to(at::kFloat), y = x.to(at::kLong), truth = x > 2;
  const auto is_taken = [](const char* op, const torch::jit::Stack& call) {
    return native_accuracy_of(op, call) != nullptr;
  };
  EXPECT_FALSE(is_taken("aten::argmax", {x, int64_t{0}, false}));
  EXPECT_FALSE(is_taken("aten::argmax", {x, at::IValue(), false}));
  EXPECT_FALSE(is_taken("aten::argmax", {x.t(), int64_t{1}, false}));
  EXPECT_FALSE(is_taken("aten::argmax", {y, int64_t{1}, false}));
  EXPECT_FALSE(is_taken("aten::argmax", {x.slice(0, 0, 0), int64_t{1}, false}));
  EXPECT_FALSE(is_taken("aten::eq.Tensor", {y, y[0]}));
  EXPECT_FALSE(is_taken("aten::eq.Tensor", {y, x}));
  EXPECT_FALSE(is_taken("aten::_to_copy", copy_of(truth, at::kDouble)));
  EXPECT_FALSE(is_taken("aten::_to_copy", copy_of(y, at::kFloat)));
  EXPECT_FALSE(is_taken("aten::_to_copy", copy_of(truth.t(), at::kFloat)));
}

}  // namespace
}  // namespace tutti
