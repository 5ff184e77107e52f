#pragma once

#include "tutti/function/native_kernel.h"

namespace tutti {

// What computes an aten::convolution or aten::convolution_backward of two axes and float32 as LibTorch does it on this
// processor with one thread, bit for bit; null where that is not known to be faster, or where the convolution is
// another one: with strides, padding, dilation or groups, transposed, with channels that lie last, or with more of them
// than oneDNN adds in one go. As for products, random numbers of these shapes are tried before. Most of what it saves
// of small convolutions is that LibTorch looks for one of oneDNN's kernels at each call, and lays its numbers out anew.
// Reads the images, the weights, the bias or the gradient; writes the results, the last arguments.
NativeKernel native_convolution_of(const std::string& op, const torch::jit::Stack& arguments);

}  // namespace tutti
