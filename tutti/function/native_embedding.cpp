#include "tutti/function/native_embedding.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "tutti/tensor/parallel_ranges.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;

constexpr int64_t kWeightsOfAThread = 1000;  // at least

#if defined(__x86_64__)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
void add_row(const float* __restrict row, int64_t width, float* __restrict to) {
  for (int64_t i = 0; i < width; ++i) to[i] += row[i];
}

// Where the rows of a gradient [..., width] begin, which lie apart as its last axis but one says, for each index of the
// others.
int64_t offset_of_rows(const at::Tensor& gradient, int64_t index) {
  int64_t offset = 0;
  for (int64_t axis = gradient.dim() - 3; axis >= 0; --axis) {
    offset += index % gradient.size(axis) * gradient.stride(axis);
    index /= gradient.size(axis);
  }
  return offset;
}

// (grad_output, indices, num_weights, padding_idx, scale_grad_by_freq, out)
void embedding_gradient(const Stack& arguments) {
  const at::Tensor& gradient = arguments[0].toTensor();
  const int64_t* const indices = arguments[1].toTensor().const_data_ptr<int64_t>();
  const int64_t padding = arguments[3].toInt(), width = gradient.size(-1);
  const int64_t rows = gradient.size(-2), stride = gradient.stride(-2), times = gradient.numel() / (rows * width);
  const float* const from = gradient.const_data_ptr<float>();
  float* const to = arguments[5].toTensor().mutable_data_ptr<float>();
  parallel_ranges(arguments[2].toInt(), kWeightsOfAThread, [&](int64_t begin, int64_t end) {
    std::fill(to + begin * width, to + end * width, 0.0F);
    for (int64_t time = 0; time < times; ++time) {
      const float* const first = from + offset_of_rows(gradient, time);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t index = indices[time * rows + row];
        if (index != padding && index >= begin && index < end) add_row(first + row * stride, width, to + index * width);
      }
    }
  });
}

}  // namespace

NativeKernel native_embedding_gradient_of(const std::string& op, const Stack& arguments) {
  if (op != "aten::embedding_dense_backward" || arguments[4].toBool()) return nullptr;
  const at::Tensor& gradient = arguments[0].toTensor();
  const at::Tensor& indices = arguments[1].toTensor();
  const bool has_rows = gradient.scalar_type() == at::kFloat && gradient.dim() >= 2 && gradient.numel() > 0 &&
                        gradient.stride(-1) == 1 && !gradient.is_neg();
  const bool has_indices = indices.scalar_type() == at::kLong && indices.is_contiguous();
  const bool are_as_many = has_rows && gradient.sizes().slice(0, gradient.dim() - 1) == indices.sizes();
  return has_indices && are_as_many && arguments[2].toInt() > 0 ? embedding_gradient : nullptr;
}

}  // namespace tutti
