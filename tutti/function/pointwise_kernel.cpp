// Compiled without contraction of products and sums, and with square roots that set no errno.
#include "tutti/function/pointwise_kernel.h"

#include <cmath>

#include "tutti/core/target_clones.h"

namespace tutti {

bool has_fused_multiply_add() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

// clang-format off
#define TUTTI_EACH(result)                                       \
  _Pragma("GCC ivdep") for (int64_t i = 0; i < count; ++i) {      \
    const float x = a[i];                                        \
    out[i] = (result);                                           \
  }                                                              \
  return
#define TUTTI_EACH_PAIR(result)                                  \
  _Pragma("GCC ivdep") for (int64_t i = 0; i < count; ++i) {      \
    const float x = a[i], y = b[i];                              \
    out[i] = (result);                                           \
  }                                                              \
  return

// The loops become loops of the vectors that the processor has.
#if defined(__x86_64__)
TUTTI_TARGET_CLONES("avx512f", "fma", "default")
#endif
void compute_pointwise(Pointwise what, float* out, const float* a, const float* b, int64_t count,
                       PointwiseNumbers numbers) {
  const float number = numbers.number, limit = numbers.limit;
  switch (what) {
    case Pointwise::add: TUTTI_EACH_PAIR(__builtin_fmaf(y, 1.0F, x));  // of two NaNs this gives the second, as LibTorch
    case Pointwise::add_scaled: TUTTI_EACH_PAIR(__builtin_fmaf(y, number, x));
    case Pointwise::subtract: TUTTI_EACH_PAIR(__builtin_fmaf(y, -1.0F, x));
    case Pointwise::multiply: TUTTI_EACH_PAIR(y * x);
    case Pointwise::divide: TUTTI_EACH_PAIR(x / y);
    case Pointwise::threshold_gradient: TUTTI_EACH_PAIR(y <= number ? 0.0F : x);
    case Pointwise::sigmoid_gradient: TUTTI_EACH_PAIR(x * (1.0F - y) * y);
    case Pointwise::add_number: TUTTI_EACH(x + number);
    case Pointwise::subtract_from: TUTTI_EACH(number - x);
    case Pointwise::multiply_number: TUTTI_EACH(x * number);
    case Pointwise::divide_number: TUTTI_EACH(x / number);
    case Pointwise::negate: TUTTI_EACH(-x);
    case Pointwise::absolute: TUTTI_EACH(std::fabs(x));
    case Pointwise::square: TUTTI_EACH(x * x);
    case Pointwise::cube: TUTTI_EACH(x * x * x);
    case Pointwise::inverse_root: TUTTI_EACH(1.0F / std::sqrt(x));
    case Pointwise::reciprocal: TUTTI_EACH(1.0F / x);
    case Pointwise::at_least: TUTTI_EACH(x < number ? number : x);
    case Pointwise::at_most: TUTTI_EACH(x > number ? number : x);
    case Pointwise::between: {
      _Pragma("GCC ivdep") for (int64_t i = 0; i < count; ++i) {
        const float raised = a[i] < number ? number : a[i];
        out[i] = raised > limit ? limit : raised;
      }
      return;
    }
    case Pointwise::copy: TUTTI_EACH(x);
  }
}
// clang-format on

}  // namespace tutti
