#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tutti/keras/optimizers/fused_update_internal.h"

namespace tutti::keras::optimizers {

using Tensor = at::Tensor;

// The buffers of a value as they are: a mesh tensor's components, a plain tensor itself.
c10::ArrayRef<Tensor> buffers_of(const Tensor& tensor);

// Whether the value lies in dense buffers in host memory, in a dtype of floating point numbers that is updated there.
bool in_host_buffers(const Tensor& tensor);

// Of finite numbers the sum of their squares, in double. NaN or infinity if an element is.
double sum_of_squares(const Tensor& tensor);
bool all_finite(const Tensor& tensor);

// What an update does to the gradient and the variable before its rule.
struct Scaling {
  double gradient_scale = 1;
  double gradient_limit;
  double variable_scale = 1;
};

// Appends the pieces of a variable: its buffers, the gradient's and the slots'. Whoever shares the variable will see
// what is written to it. False, and nothing is appended, where a buffer of one of them lies elsewhere than
// in_host_buffers says. A gradient whose elements lie in another order than the variable's is copied, to `copies`.
bool add_pieces(const Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots, const Scaling& scaling,
                std::vector<Piece>& pieces, std::vector<Tensor>& copies);

}  // namespace tutti::keras::optimizers
