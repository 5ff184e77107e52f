#include "tutti/function/native_embedding.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/embedding.h>
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <vector>

#include "tutti/core/target_clones.h"
#include "tutti/tensor/parallel_ranges.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;

constexpr int64_t kWeightsOfAThread = 1000, kElementsTakenByAThread = 32768;  // at least

#if defined(__x86_64__)
TUTTI_TARGET_CLONES("avx512f", "avx2", "default")
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

// (weight, indices, padding_idx, scale_grad_by_freq, sparse, out)
void embedding(const Stack& arguments) {
  const at::Tensor &weight = arguments[0].toTensor(), &indices = arguments[1].toTensor();
  const int64_t words = weight.size(0), width = weight.size(1), count = indices.numel();
  const int64_t* const index = indices.const_data_ptr<int64_t>();
  if (std::any_of(index, index + count, [&](int64_t i) { return i < 0 || i >= words; }))
    at::embedding(weight, indices);  // tells which
  const float* const from = weight.const_data_ptr<float>();
  float* const to = arguments[5].toTensor().mutable_data_ptr<float>();
  parallel_ranges(count, std::max<int64_t>(1, kElementsTakenByAThread / width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) std::copy_n(from + index[i] * width, width, to + i * width);
  });
}

// (grad_output, input_sizes, dim, index, out)
void selection_gradient(const Stack& arguments) {
  const at::Tensor &gradient = arguments[0].toTensor(), &out = arguments[4].toTensor();
  const int64_t axis = c10::maybe_wrap_dim(arguments[2].toInt(), out.dim()), size = out.size(axis);
  const int64_t selected = c10::maybe_wrap_dim(arguments[3].toInt(), size), inner = out.stride(axis);
  const float* const from = gradient.const_data_ptr<float>();
  float* const to = out.mutable_data_ptr<float>();
  for (int64_t outer = 0; outer < gradient.numel() / inner; ++outer) {
    float* const begin = to + outer * size * inner;
    float* const place = std::fill_n(begin, selected * inner, 0.0F);
    std::fill(std::copy_n(from + outer * inner, inner, place), begin + size * inner, 0.0F);
  }
}

bool are_rows(const at::Tensor& x) { return lies_plainly(x, at::kFloat) && x.numel() > 0; }

}  // namespace

NativeKernel native_embedding_of(const std::string& op, const Stack& arguments) {
  const bool is_gradient = op == "aten::embedding_dense_backward";
  if (!is_gradient && op != "aten::embedding") return nullptr;
  const at::Tensor& rows = arguments[0].toTensor();
  const at::Tensor& indices = arguments[1].toTensor();
  if (indices.scalar_type() != at::kLong || !indices.is_contiguous()) return nullptr;
  if (!is_gradient) return are_rows(rows) && rows.dim() == 2 ? embedding : nullptr;
  const bool has_rows =
      rows.scalar_type() == at::kFloat && rows.dim() >= 2 && rows.numel() > 0 && rows.stride(-1) == 1 && !rows.is_neg();
  const bool are_as_many = has_rows && rows.sizes().slice(0, static_cast<size_t>(rows.dim()) - 1) == indices.sizes();
  return are_as_many && arguments[2].toInt() > 0 && !arguments[4].toBool() ? embedding_gradient : nullptr;
}

NativeKernel native_selection_gradient_of(const std::string& op, const Stack& arguments) {
  if (op != "aten::select_backward" || !are_rows(arguments[0].toTensor())) return nullptr;
  const std::vector<int64_t> sizes = arguments[1].toIntVector();
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t named = arguments[2].toInt(), index = arguments[3].toInt();
  if (named < -rank || named >= rank) return nullptr;
  const int64_t axis = named < 0 ? named + rank : named, size = sizes[static_cast<size_t>(axis)];
  std::vector<int64_t> selected(sizes);
  selected.erase(selected.begin() + axis);
  const bool fits = index >= -size && index < size && arguments[0].toTensor().sizes() == at::IntArrayRef(selected);
  return fits ? selection_gradient : nullptr;
}

}  // namespace tutti
