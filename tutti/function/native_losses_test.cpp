#include "tutti/function/native_losses.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/kernel_bits.h"
#include "tutti/function/pointwise_kernel.h"

namespace tutti {
namespace {

using at::Tensor;

torch::jit::Stack call_of(const Tensor& x, const Tensor& y, int64_t reduction = at::Reduction::None) {
  return {x, y, at::IValue(), at::IValue(), reduction};
}

TEST(NativeLosses, CrossEntropiesOfLogitsHaveLibTorchsBits) {
  if (!has_fused_multiply_add()) GTEST_SKIP() << "this processor rounds twice";
  for (const int64_t count : {1, 3, 5, 16, 33, 1000, 4096}) {
    const Tensor y = at::rand({count, 1});
    for (const double scale : {1e-30, 1.0, 30.0, 1e30}) {
      const Tensor x = at::randn({count, 1}) * scale;
      expect_kernel_gives(at::binary_cross_entropy_with_logits(x, y, {}, {}, at::Reduction::None),
                          "aten::binary_cross_entropy_with_logits", call_of(x, y));
    }
    for (const double special : {-0.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
      const Tensor x = at::randn({count, 1}).fill_(special), zero = at::zeros_like(x);
      for (const Tensor& target : {y, zero, zero + 1})
        expect_kernel_gives(at::binary_cross_entropy_with_logits(x, target, {}, {}, at::Reduction::None),
                            "aten::binary_cross_entropy_with_logits", call_of(x, target));
    }
  }
}

TEST(NativeLosses, LeaveOthersToLibTorch) {
  if (!has_fused_multiply_add()) GTEST_SKIP() << "this processor rounds twice";
  const auto is_taken = [](const torch::jit::Stack& call) {
    return native_losses_of("aten::binary_cross_entropy_with_logits", call) != nullptr;
  };
  const Tensor x = at::ones({3, 2});
  EXPECT_TRUE(is_taken(call_of(x, x)));
  EXPECT_FALSE(is_taken(call_of(x, x, at::Reduction::Mean)));
  EXPECT_FALSE(is_taken(call_of(x, at::ones({2}))));
  EXPECT_FALSE(is_taken(call_of(x.t(), x.t())));
  EXPECT_FALSE(is_taken(call_of(x.to(at::kDouble), x)));
  EXPECT_FALSE(is_taken(call_of(at::ones({0}), at::ones({0}))));
  EXPECT_FALSE(is_taken({x, x, x, at::IValue(), int64_t{at::Reduction::None}}));
}

}  // namespace
}  // namespace tutti
