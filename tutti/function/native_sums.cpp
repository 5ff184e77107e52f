#include "tutti/function/native_sums.h"

#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <type_traits>
#include <vector>

#include "tutti/core/target_clones.h"
#include "tutti/tensor/random_seed.h"

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
TUTTI_TARGET_CLONES("avx512f", "avx2", "default")
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
}

// The sum of contiguous elements.
#if defined(__x86_64__)
TUTTI_TARGET_CLONES("avx512f", "avx2", "default")
#endif
float sum_all(const float* from, int64_t count) {
  Sums chains;
  const int64_t lanes = count < kLanesOfASum ? 1 : kLanesOfASum, vectors = count / lanes;
  if (lanes == 1)
    add_in_pieces(from, vectors / kChains, kChains, kChains, chains);
  else
    add_in_pieces(from, vectors / kChains, kColumnsOfAChain, std::integral_constant<int64_t, kColumnsOfAChain>(),
                  chains);
  for (int64_t vector = vectors / kChains * kChains; vector < vectors; ++vector)
    add(from + vector * lanes, lanes, chains);
  for (int64_t i = 1; i < kChains; ++i) add(chains + i * lanes, lanes, chains);
  float sum = 0;
  for (int64_t i = vectors * lanes; i < count; ++i) sum += from[i];
  for (int64_t lane = 0; lane < lanes; ++lane) sum += chains[lane];
  return sum;
}

// What a reduction adds up of contiguous elements.
enum class Added {
  each,  // alone
  all,
  columns,  // of a matrix
};

// None where it is something else. `axes`: none are all.
std::optional<Added> added_along(const at::Tensor& self, const std::vector<int64_t>& axes) {
  if (!lies_plainly(self, at::kFloat) || self.numel() == 0 || self.numel() >= kElementsOfOneThread) return {};
  if (axes.empty()) return Added::all;
  bool any_is_added = false, any_stays = false;  // of the axes with several elements
  for (int64_t axis = 0; axis < self.dim(); ++axis) {
    if (self.size(axis) == 1) continue;
    const auto names_it = [&](int64_t named) { return named == axis || named + self.dim() == axis; };
    (std::any_of(axes.begin(), axes.end(), names_it) ? any_is_added : any_stays) = true;
  }
  if (!any_is_added) return Added::each;
  if (!any_stays) return Added::all;
  if (self.dim() == 2 && axes.size() == 1 && (axes[0] == 0 || axes[0] == -2)) return Added::columns;
  return {};
}

// (self, …, out)
void add_up(const Stack& arguments, Added added, bool to_mean) {
  const at::Tensor &self = arguments.front().toTensor(), &out = arguments.back().toTensor();
  const auto* const from = self.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<float>();
  switch (added) {
    case Added::each: std::copy_n(from, self.numel(), to); break;
    case Added::all: *to = sum_all(from, self.numel()); break;
    case Added::columns: sum_columns(from, self.size(0), self.size(1), to); break;
  }
  for (int64_t i = 0; i < out.numel(); ++i) to[i] += 0.0F;  // LibTorch adds to zero: none is a negative one
  if (!to_mean) return;
  const int64_t count = self.numel() / out.numel();
  for (int64_t i = 0; i < out.numel(); ++i) to[i] /= static_cast<float>(count);
}

// One number may agree by chance, and those of several sizes do not.
bool adds_all_as_libtorch() {
  const auto generator = make_generator(1, at::kCPU);
  for (const int64_t count : {3, 7, 30, 50, 300, 1000, 2000, 5000})
    for (int i = 0; i < 4; ++i) {
      const at::Tensor numbers = at::empty({count}).uniform_(-1, 1, generator);
      if (sum_all(numbers.const_data_ptr<float>(), count) != at::sum(numbers).item<float>()) return false;
    }
  return true;
}

}  // namespace

NativeKernel native_sums_of(const std::string& op, const Stack& arguments) {
  if (!at::get_cpu_capability().starts_with("AVX")) return nullptr;  // its vectors are others
  const bool of_axes = op == "aten::sum.dim_IntList" || op == "aten::mean.dim";
  if (!of_axes && op != "aten::sum" && op != "aten::mean") return nullptr;
  const at::IValue& dtype = arguments[of_axes ? 3 : 1];
  if (!dtype.isNone()) return nullptr;
  const bool names_axes = of_axes && !arguments[1].isNone();
  const auto added =
      added_along(arguments[0].toTensor(), names_axes ? arguments[1].toIntVector() : std::vector<int64_t>());
  if (!added) return nullptr;
  if (*added == Added::all) {
    static const bool agrees = adds_all_as_libtorch();
    if (!agrees) return nullptr;
  }
  return [added = *added, to_mean = op.starts_with("aten::mean")](const Stack& call) { add_up(call, added, to_mean); };
}

}  // namespace tutti
