#include "tutti/function/native_log_softmax.h"

#include <ATen/Version.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "tutti/tensor/parallel_ranges.h"

#if defined(__x86_64__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // what the header leaves open on purpose (GCC bug 105593)
#include <immintrin.h>

// Of LibTorch's library.
extern "C" [[gnu::target("avx512f")]] __m512 Sleef_expf16_u10(__m512);
extern "C" [[gnu::target("avx512f")]] __m512 Sleef_logf16_u10(__m512);
#endif

namespace tutti {

#if defined(__x86_64__)
namespace {

using Stack = torch::jit::Stack;

constexpr int64_t kClasses = 15;  // at most: from 16 on LibTorch adds in vectors
constexpr int64_t kRowsAtOnce = 16, kClassesWorthAThread = 8192;

// The first `count` of a vector's numbers, one after the other.
float sum_of(const float* numbers, int64_t count) {
  float sum = numbers[0];
  for (int64_t i = 1; i < count; ++i) sum += numbers[i];
  return sum;
}

// What LibTorch takes for a number that is none when it looks for the largest.
[[gnu::target("avx512f")]] float largest_of(__m512 row, __mmask16 mask, int64_t classes) {
  const bool has_none = _mm512_mask_cmp_ps_mask(mask, row, row, _CMP_UNORD_Q) != 0;
  if (has_none && classes > 1) return _mm512_cvtss_f32(_mm512_castsi512_ps(_mm512_set1_epi32(-1)));
  if (classes == 1) return _mm512_cvtss_f32(row);
  return _mm512_mask_reduce_max_ps(mask, row);
}

[[gnu::target("avx512f")]] void log_softmax_rows(const float* from, int64_t rows, int64_t classes, float* to) {
  const auto mask = static_cast<__mmask16>((1U << classes) - 1);
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows - first);
    alignas(64) float exponentials[kRowsAtOnce][16], largest[kRowsAtOnce], sums[kRowsAtOnce] = {};
    for (int64_t i = 0; i < count; ++i) {
      const __m512 row = _mm512_maskz_loadu_ps(mask, from + (first + i) * classes);
      largest[i] = largest_of(row, mask, classes);
      _mm512_store_ps(exponentials[i], Sleef_expf16_u10(_mm512_sub_ps(row, _mm512_set1_ps(largest[i]))));
    }
    for (int64_t i = 0; i < count; ++i) sums[i] = sum_of(exponentials[i], classes);
    _mm512_store_ps(sums, Sleef_logf16_u10(_mm512_load_ps(sums)));
    for (int64_t i = 0; i < count; ++i) {
      const __m512 row = _mm512_maskz_loadu_ps(mask, from + (first + i) * classes);
      const __m512 shifted = _mm512_sub_ps(row, _mm512_set1_ps(largest[i]));
      _mm512_mask_storeu_ps(to + (first + i) * classes, mask, _mm512_sub_ps(shifted, _mm512_set1_ps(sums[i])));
    }
  }
}

// gradient - exp(result) * the sum of the row's gradients
[[gnu::target("avx512f")]] void log_softmax_gradient_rows(const float* gradient, const float* result, int64_t rows,
                                                          int64_t classes, float* to) {
  const auto mask = static_cast<__mmask16>((1U << classes) - 1);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * classes;
    const __m512 sum = _mm512_set1_ps(sum_of(gradient + at, classes));
    const __m512 exponentials = Sleef_expf16_u10(_mm512_maskz_loadu_ps(mask, result + at));
    _mm512_mask_storeu_ps(to + at, mask,
                          _mm512_fnmadd_ps(exponentials, sum, _mm512_maskz_loadu_ps(mask, gradient + at)));
  }
}

// Calls f(first row, rows) for all.
template <class F>
void for_rows(const at::Tensor& x, F f) {
  const int64_t classes = x.size(-1);
  parallel_ranges(x.numel() / classes, std::max<int64_t>(1, kClassesWorthAThread / classes),
                  [&](int64_t begin, int64_t end) { f(begin * classes, end - begin, classes); });
}

// (self, dim, half_to_float, out)
void log_softmax(const Stack& arguments) {
  const auto* from = arguments[0].toTensor().const_data_ptr<float>();
  auto* to = arguments[3].toTensor().mutable_data_ptr<float>();
  for_rows(arguments[0].toTensor(), [&](int64_t first, int64_t rows, int64_t classes) {
    log_softmax_rows(from + first, rows, classes, to + first);
  });
}

// (grad_output, output, dim, input_dtype, out)
void log_softmax_gradient(const Stack& arguments) {
  const auto* gradient = arguments[0].toTensor().const_data_ptr<float>();
  const auto* result = arguments[1].toTensor().const_data_ptr<float>();
  auto* to = arguments[4].toTensor().mutable_data_ptr<float>();
  for_rows(arguments[0].toTensor(), [&](int64_t first, int64_t rows, int64_t classes) {
    log_softmax_gradient_rows(gradient + first, result + first, rows, classes, to + first);
  });
}

bool has_few_classes(const at::Tensor& x, int64_t axis) {
  return lies_plainly(x, at::kFloat) && x.dim() >= 1 && x.numel() > 0 && (axis == -1 || axis == x.dim() - 1) &&
         x.size(-1) <= kClasses;
}

}  // namespace

NativeKernel native_log_softmax_of(const std::string& op, const Stack& arguments) {
  if (at::get_cpu_capability() != "AVX512" || !__builtin_cpu_supports("avx512f")) return nullptr;
  if (op == "aten::_log_softmax" && !arguments[2].toBool() &&
      has_few_classes(arguments[0].toTensor(), arguments[1].toInt()))
    return log_softmax;
  if (op == "aten::_log_softmax_backward_data" && has_few_classes(arguments[0].toTensor(), arguments[2].toInt()) &&
      has_few_classes(arguments[1].toTensor(), arguments[2].toInt()) && arguments[3].toScalarType() == at::kFloat)
    return log_softmax_gradient;
  return nullptr;
}
#pragma GCC diagnostic pop
#else
NativeKernel native_log_softmax_of(const std::string&, const torch::jit::Stack&) { return nullptr; }
#endif

}  // namespace tutti
