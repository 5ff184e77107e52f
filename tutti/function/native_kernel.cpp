#include "tutti/function/native_kernel.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <limits>

#include "tutti/tensor/parallel_ranges.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;

constexpr int64_t kElementsOfAThread = 32768;

// Takes an element that is larger, or no number, and where it lies: what LibTorch chooses is the first of equals and
// the last of NaNs.
void choose(float element, int32_t place, float& value, int32_t& chosen) {
  const bool taken = (element > value) | (element != element);
  value = taken ? element : value;
  chosen = taken ? place : chosen;
}

// Of 2 x 2 elements the largest, and its place. The loops become loops of the vectors that the processor has.
#if defined(__x86_64__)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
void pool_row(const float* top, const float* bottom, int64_t width, int64_t first, int64_t count, float* values,
              int64_t* indices) {
  constexpr int64_t kBlock = 64;
  int32_t chosen[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t column = 2 * (begin + i);
      float value = -std::numeric_limits<float>::infinity();
      int32_t place = 0;
      choose(top[column], 0, value, place);
      choose(top[column + 1], 1, value, place);
      choose(bottom[column], 2, value, place);
      choose(bottom[column + 1], 3, value, place);
      values[begin + i] = value;
      chosen[i] = place;
    }
    for (int64_t i = 0; i < size; ++i)
      indices[begin + i] = first + 2 * (begin + i) + (chosen[i] & 1) + (chosen[i] & 2 ? width : 0);
  }
}

// (self, kernel_size, stride, padding, dilation, ceil_mode, out, indices)
void max_pool_2x2(const Stack& arguments) {
  const at::Tensor &self = arguments[0].toTensor(), &out = arguments[6].toTensor(), &where = arguments[7].toTensor();
  const int64_t height = self.size(-2), width = self.size(-1), rows = out.size(-2), columns = out.size(-1);
  if (out.numel() == 0) return;
  const auto* from = self.const_data_ptr<float>();
  auto* values = out.mutable_data_ptr<float>();
  auto* indices = where.mutable_data_ptr<int64_t>();
  const int64_t planes = out.numel() / (rows * columns);
  const int64_t grain = std::max<int64_t>(1, kElementsOfAThread / (height * width));
  parallel_ranges(planes, grain, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane)
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t first = 2 * row * width, target = (plane * rows + row) * columns;
        const float* const top = from + plane * height * width + first;
        pool_row(top, top + width, width, first, columns, values + target, indices + target);
      }
  });
}

bool pools_2x2(const Stack& arguments) {
  const auto all = [&](size_t i, int64_t wanted) {
    const auto numbers = arguments[i].toIntVector();
    return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == wanted; });
  };
  const at::Tensor& self = arguments[0].toTensor();
  const bool ceils = arguments[5].toBool();
  return self.scalar_type() == at::kFloat && self.is_contiguous() && !self.is_neg() && self.dim() >= 3 &&
         self.size(-1) >= 2 && self.size(-2) >= 2 && (!ceils || (self.size(-1) % 2 == 0 && self.size(-2) % 2 == 0)) &&
         all(1, 2) && all(2, 2) && all(3, 0) && all(4, 1);
}

}  // namespace

NativeKernel native_kernel_of(const std::string& op, const Stack& arguments) {
  if (op == "aten::max_pool2d_with_indices" && pools_2x2(arguments)) return max_pool_2x2;
  return nullptr;
}

}  // namespace tutti
