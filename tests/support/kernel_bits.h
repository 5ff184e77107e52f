#pragma once

#include <ATen/ops/empty_like.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/same_bits.h"
#include "tutti/function/native_kernel.h"

namespace tutti {

// There is a kernel of ours for the call, and it gives what LibTorch does.
inline void expect_kernel_gives(const at::Tensor& wanted, const std::string& op, torch::jit::Stack arguments) {
  const NativeKernel kernel = native_kernel_of(op, arguments);
  ASSERT_TRUE(kernel) << op;
  const at::Tensor own = at::empty_like(wanted).fill_(7);
  arguments.emplace_back(own);
  kernel(arguments);
  EXPECT_TRUE(same_bits(own, wanted)) << op << arguments[0];
}

}  // namespace tutti
