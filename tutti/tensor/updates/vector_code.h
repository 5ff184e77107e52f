#pragma once

namespace tutti {

#if defined(__x86_64__)
template <class F>
[[gnu::target("avx2"), gnu::flatten]] auto in_avx2(const F& f) {
  return f();
}
#endif

// Calls f, whose loops are compiled for the vectors that the processor has. They give the same numbers: no product is
// fused with a sum.
template <class F>
[[gnu::flatten]] auto in_vectors(const F& f) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return in_avx2(f);
#endif
  return f();
}

}  // namespace tutti
