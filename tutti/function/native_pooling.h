#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// The largest of each 2 x 2 elements and where it lies: of equals the first, of NaNs the last one, as LibTorch chooses.
// Reads argument 0, float32 and contiguous; writes 6 and 7.
void max_pool_2x2(const torch::jit::Stack& arguments);
// Whether a max_pool2d_with_indices is one.
bool pools_2x2(const torch::jit::Stack& arguments);
// The same where the channels lie last.
void max_pool_2x2_of_images(const torch::jit::Stack& arguments);
bool pools_2x2_of_images(const torch::jit::Stack& arguments);

// Each gradient in the place that was chosen, zeros elsewhere. Reads arguments 0, the gradient, and 7, the places;
// writes 8.
void max_pool_2x2_backward(const torch::jit::Stack& arguments);
// Whether a max_pool2d_with_indices_backward is that of a 2 x 2 pooling.
bool pooled_2x2(const torch::jit::Stack& arguments);

// The same of relu(self), and the gradient of self, in one go. `pooled` and `where` are what the former gave.
// Contiguous, or all with the channels last.
void max_pool_2x2_of_relu(const at::Tensor& self, const at::Tensor& pooled, const at::Tensor& where);
void max_pool_2x2_of_relu_backward(const at::Tensor& gradient, const at::Tensor& pooled, const at::Tensor& where,
                                   const at::Tensor& out);

}  // namespace tutti
