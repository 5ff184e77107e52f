#pragma once

#include <ATen/core/Tensor.h>

#include <span>

// Sparse tensors by their parts, which are known to fit: nothing is looked at.
namespace tutti {

// `indices`: [sparse dimensions, n] of int64; `values`: [n, ...]. It shares both. Coalesced: the indices ascend, and
// none is there twice.
at::Tensor sparse_tensor(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef sizes, bool is_coalesced);

struct SparseTerms {
  at::Tensor indices, values;
};
// Those of several sparse tensors behind each other, on one device: their sum, once it is coalesced.
SparseTerms terms_of(std::span<const at::Tensor> sparse, c10::Device device);

// Of the elements of a dense tensor, or of the indices and values of a sparse one.
int64_t bytes_in(const at::Tensor& tensor);

}  // namespace tutti
