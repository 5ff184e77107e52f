#include "tutti/function/column_sums.h"

#include <ATen/Version.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <type_traits>

namespace tutti {
namespace {

using Stack = torch::jit::Stack;

constexpr int64_t kLanesOfASum = 8;  // of the vectors that LibTorch adds in
constexpr int64_t kColumnsOfAChain = 4 * kLanesOfASum;
constexpr int64_t kElementsOfOneThread = 32768;  // LibTorch divides larger sums among its threads
constexpr int kLevels = 4, kChains = 4;

using Sums = float[kColumnsOfAChain];

template <class Count>
[[gnu::always_inline]] inline void add(const float* __restrict numbers, Count count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] += numbers[i];
}

// Rows are added up to pieces, pieces to larger ones, so that few sums are of numbers of very different sizes.
template <class Count>
[[gnu::always_inline]] inline void add_in_pieces(const float* from, int64_t rows, int64_t stride, Count count,
                                                 float* to) {
  const int power =
      std::max(4, static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(rows, 1) - 1))) / kLevels);
  const int64_t piece = int64_t{1} << power;
  Sums sums[kLevels] = {};
  int64_t row = 0;
  while (row + piece <= rows) {
    for (int64_t i = 0; i < piece; ++i, ++row) add(from + row * stride, count, sums[0]);
    for (int level = 1; level < kLevels; ++level) {
      add(sums[level - 1], count, sums[level]);
      std::fill_n(sums[level - 1], kColumnsOfAChain, 0.0F);
      if ((row & ((piece - 1) << (level * power))) != 0) break;
    }
  }
  for (; row < rows; ++row) add(from + row * stride, count, sums[0]);
  for (int level = 1; level < kLevels; ++level) add(sums[level], count, sums[0]);
  std::copy_n(sums[0], static_cast<int64_t>(count), to);
}

#if defined(__x86_64__)
[[gnu::target_clones("avx512f", "avx2", "default")]]
#endif
void sum_columns(const float* from, int64_t rows, int64_t columns, float* to) {
  int64_t column = 0;
  for (; column + kColumnsOfAChain <= columns; column += kColumnsOfAChain)
    add_in_pieces(from + column, rows, columns, std::integral_constant<int64_t, kColumnsOfAChain>(), to + column);
  if (columns < kLanesOfASum)
    for (; column + 4 <= columns; column += 4) add_in_pieces(from + column, rows, columns, 4, to + column);
  const int64_t left = columns - column;
  if (left > 0) {
    Sums chains[kChains];
    for (int64_t i = 0; i < kChains; ++i)
      add_in_pieces(from + column + i * columns, rows / kChains, kChains * columns, left, chains[i]);
    for (int64_t row = rows / kChains * kChains; row < rows; ++row) add(from + column + row * columns, left, chains[0]);
    for (int64_t i = 1; i < kChains; ++i) add(chains[i], left, chains[0]);
    std::copy_n(chains[0], left, to + column);
  }
  for (int64_t i = 0; i < columns; ++i) to[i] += 0.0F;  // LibTorch adds to zero: none is a negative one
}

// (self, dim, keepdim, dtype, out)
void sums_of_columns(const Stack& arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  sum_columns(self.const_data_ptr<float>(), self.size(0), self.size(1),
              arguments[4].toTensor().mutable_data_ptr<float>());
}

void means_of_columns(const Stack& arguments) {
  sums_of_columns(arguments);
  const at::Tensor& self = arguments[0].toTensor();
  auto* const means = arguments[4].toTensor().mutable_data_ptr<float>();
  const auto rows = static_cast<float>(self.size(0));
  for (int64_t i = 0; i < self.size(1); ++i) means[i] /= rows;
}

bool is_of_columns(const Stack& arguments) {
  const at::Tensor& self = arguments[0].toTensor();
  if (!arguments[1].isIntList() || !arguments[3].isNone()) return false;
  const auto axes = arguments[1].toIntVector();
  return axes.size() == 1 && (axes[0] == 0 || axes[0] == -2) && self.scalar_type() == at::kFloat && self.dim() == 2 &&
         self.is_contiguous() && !self.is_neg() && self.size(0) > 1 && self.size(1) > 1 &&
         self.numel() < kElementsOfOneThread;
}

}  // namespace

NativeKernel native_column_sums_of(const std::string& op, const Stack& arguments) {
  if (!at::get_cpu_capability().starts_with("AVX")) return nullptr;  // its vectors are others
  if (op == "aten::sum.dim_IntList" && is_of_columns(arguments)) return sums_of_columns;
  if (op == "aten::mean.dim" && is_of_columns(arguments)) return means_of_columns;
  return nullptr;
}

}  // namespace tutti
