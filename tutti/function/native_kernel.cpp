#include "tutti/function/native_kernel.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <limits>

#include "tutti/function/pointwise_kernel.h"
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

// Of the 2 x 2 elements of two rows the largest, and its place.
[[gnu::always_inline]] inline void pool_row(const float* top, const float* bottom, int64_t width, int64_t first,
                                            int64_t count, float* values, int64_t* indices) {
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

// The loops become loops of the vectors that the processor has.
#if defined(__x86_64__)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
void pool_plane(const float* plane, int64_t width, int64_t rows, int64_t columns, float* values, int64_t* indices) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = 2 * row * width;
    pool_row(plane + first, plane + first + width, width, first, columns, values + row * columns,
             indices + row * columns);
  }
}

// Of the 2 x 2 pixels whose first one is given the largest element of each channel, and its place. Channels lie beside
// each other, pixels of a row behind each other.
[[gnu::always_inline]] inline void pool_pixels(const float* pixel, int64_t width, int64_t place, int64_t channels,
                                               float* values, int64_t* indices) {
  constexpr int64_t kBlock = 64;
  int32_t chosen[kBlock];
  for (int64_t begin = 0; begin < channels; begin += kBlock) {
    const int64_t size = std::min(kBlock, channels - begin);
    const float *const top = pixel + begin, *const bottom = top + width * channels;
    for (int64_t i = 0; i < size; ++i) {
      float value = -std::numeric_limits<float>::infinity();
      int32_t which = 0;
      choose(top[i], 0, value, which);
      choose(top[channels + i], 1, value, which);
      choose(bottom[i], 2, value, which);
      choose(bottom[channels + i], 3, value, which);
      values[begin + i] = value;
      chosen[i] = which;
    }
    for (int64_t i = 0; i < size; ++i) indices[begin + i] = place + (chosen[i] & 1) + (chosen[i] & 2 ? width : 0);
  }
}

// An image whose channels lie innermost.
#if defined(__x86_64__)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
void pool_image(const float* image, int64_t width, int64_t channels, int64_t rows, int64_t columns, float* values,
                int64_t* indices) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t place = 2 * (row * width + column), made = (row * columns + column) * channels;
      pool_pixels(image + place * channels, width, place, channels, values + made, indices + made);
    }
}

// The same arguments as max_pool_2x2.
void max_pool_2x2_of_images(const Stack& arguments) {
  const at::Tensor &self = arguments[0].toTensor(), &out = arguments[6].toTensor(), &where = arguments[7].toTensor();
  const int64_t channels = self.size(1), height = self.size(2), width = self.size(3);
  const int64_t rows = out.size(2), columns = out.size(3);
  if (out.numel() == 0) return;
  const auto* from = self.const_data_ptr<float>();
  auto* values = out.mutable_data_ptr<float>();
  auto* indices = where.mutable_data_ptr<int64_t>();
  const int64_t size = channels * height * width, made = channels * rows * columns;
  parallel_ranges(self.size(0), std::max<int64_t>(1, kElementsOfAThread / size), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      pool_image(from + i * size, width, channels, rows, columns, values + i * made, indices + i * made);
  });
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
      pool_plane(from + plane * height * width, width, rows, columns, values + plane * rows * columns,
                 indices + plane * rows * columns);
  });
}

bool pools_2x2(const Stack& arguments) {
  const auto all = [&](size_t i, int64_t wanted) {
    const auto numbers = arguments[i].toIntVector();
    return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == wanted; });
  };
  const at::Tensor& self = arguments[0].toTensor();
  const bool ceils = arguments[5].toBool();
  return self.scalar_type() == at::kFloat && !self.is_neg() && self.dim() >= 3 && self.size(-1) >= 2 &&
         self.size(-2) >= 2 && (!ceils || (self.size(-1) % 2 == 0 && self.size(-2) % 2 == 0)) && all(1, 2) &&
         all(2, 2) && all(3, 0) && all(4, 1);
}

constexpr int64_t kColumns = 16;

// Of up to kColumns neighbouring columns: the running mean and the sum of squared differences from it, in float64 and
// row by row, as LibTorch does it for one column after the other.
#if defined(__x86_64__)
[[gnu::target_clones("avx512f", "fma", "default")]]
#endif
void add_rows(const float* from, int64_t rows, int64_t stride, int64_t count, double* means, double* squares) {
  for (int64_t row = 0; row < rows; ++row) {
    const auto num_rows = static_cast<double>(row + 1);
    const float* const elements = from + row * stride;
    for (int64_t i = 0; i < count; ++i) {
      const double element = elements[i], difference = element - means[i];
      means[i] += difference / num_rows;
      squares[i] = __builtin_fma(difference, element - means[i], squares[i]);
    }
  }
}

double correction_of(const Stack& arguments) { return arguments[2].isNone() ? 1 : arguments[2].toScalar().toDouble(); }

// (self, dim, correction, keepdim, variance, mean)
void variance_of_columns(const Stack& arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  const int64_t rows = self.size(0), columns = self.size(1);
  const double divisor = static_cast<double>(rows) - correction_of(arguments);
  const auto* from = self.const_data_ptr<float>();
  auto* variances = arguments[4].toTensor().mutable_data_ptr<float>();
  auto* all_means = arguments[5].toTensor().mutable_data_ptr<float>();
  for (int64_t begin = 0; begin < columns; begin += kColumns) {
    const int64_t count = std::min(kColumns, columns - begin);
    double means[kColumns] = {}, squares[kColumns] = {};
    add_rows(from + begin, rows, columns, count, means, squares);
    for (int64_t i = 0; i < count; ++i) {
      all_means[begin + i] = static_cast<float>(means[i]);
      variances[begin + i] = static_cast<float>(squares[i] / divisor);
    }
  }
}

bool is_variance_of_columns(const Stack& arguments) {
  constexpr int64_t kRowsOfOneThread = 32768;  // LibTorch divides longer columns among its threads
  const at::Tensor& self = arguments[0].toTensor();
  if (!has_fused_multiply_add() || !arguments[1].isIntList()) return false;
  const auto axes = arguments[1].toIntVector();
  const bool is_matrix = self.scalar_type() == at::kFloat && self.dim() == 2 && self.is_contiguous() && !self.is_neg();
  if (!is_matrix || axes.size() != 1 || (axes[0] != 0 && axes[0] != -2)) return false;
  const bool is_warned_of = static_cast<double>(self.size(0)) <= correction_of(arguments);
  return !is_warned_of && self.size(0) < kRowsOfOneThread;
}

}  // namespace

NativeKernel native_kernel_of(const std::string& op, const Stack& arguments) {
  if (op == "aten::var_mean.correction" && is_variance_of_columns(arguments)) return variance_of_columns;
  if (op == "aten::max_pool2d_with_indices" && pools_2x2(arguments)) {
    const at::Tensor& self = arguments[0].toTensor();
    if (self.is_contiguous()) return max_pool_2x2;
    if (self.is_contiguous(at::MemoryFormat::ChannelsLast)) return max_pool_2x2_of_images;
  }
  return nullptr;
}

}  // namespace tutti
