#pragma once

#include <ATen/core/Generator.h>

#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti {

// What LibTorch computes and code of ours that may take its place, on random numbers.
struct NativeTrial {
  FunctionRef<void(const at::Generator& generator, bool tiny)>
      draw;  // tiny: products that are less than normal, or zero
  FunctionRef<void()> own;
  FunctionRef<void()> theirs;
  FunctionRef<bool()> agrees;  // whether the last two calls gave the same bits
};

// Whether all runs agree, one of them on tiny numbers, of which LibTorch makes other sums on some processors, and the
// least time of ours is less.
bool passes(const NativeTrial& trial);

// Undefined where `like` is.
at::Tensor random_like(const at::Tensor& like, double most, const at::Generator& generator);

// Of dense tensors of one geometry, or undefined ones.
bool has_the_bits_of(const at::Tensor& a, const at::Tensor& b);

}  // namespace tutti
