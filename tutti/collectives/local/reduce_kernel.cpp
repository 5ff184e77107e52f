#include "tutti/collectives/local/reduce_kernel.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tutti/collectives/local/half.h"

namespace tutti {
namespace {

constexpr size_t kBlockBytes = 4096;  // of one buffer: a block of each stays in the L1 cache

// The type in which elements are added up; load and store convert. Signed integers are added as unsigned ones: the bits
// are the same, and overflow wraps.
template <class T>
struct Element {
  using Sum = T;
  static T load(T value) { return value; }
  static T store(T sum) { return sum; }
};
template <>
struct Element<Half> {
  using Sum = float;
  static float load(Half value) { return to_float(value); }
  static Half store(float sum) { return to_half(sum); }
};
template <>
struct Element<BFloat16> {
  using Sum = float;
  static float load(BFloat16 value) { return to_float(value); }
  static BFloat16 store(float sum) { return to_bfloat16(sum); }
};

template <class T>
using SumOf = typename Element<T>::Sum;

template <class T>
T* at(const void* buffer, size_t offset) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(const_cast<void*>(buffer)) + offset);
}

// The pragmas of the loops say that no element depends on another one: two buffers are the same or apart.

// Fixed numbers of buffers, in one pass: each element is read once and written once.
template <size_t kNumInputs, size_t kNumOutputs, class T, class Finish>
[[gnu::always_inline]] inline void sum_in_one_pass(const ReductionItem& item, size_t begin, size_t end, Finish finish) {
  std::array<const T*, kNumInputs> in;
  for (size_t i = 0; i < kNumInputs; ++i) in[i] = at<T>(item.inputs[i], begin);
  std::array<T*, kNumOutputs> out;
  for (size_t i = 0; i < kNumOutputs; ++i) out[i] = at<T>(item.outputs[i], begin);
  const size_t count = (end - begin) / sizeof(T);
#pragma GCC ivdep
  for (size_t j = 0; j < count; ++j) {
    SumOf<T> sum = Element<T>::load(in[0][j]);
#pragma GCC unroll 8
    for (size_t i = 1; i < kNumInputs; ++i) sum += Element<T>::load(in[i][j]);
    const T result = Element<T>::store(finish(sum));
#pragma GCC unroll 8
    for (size_t i = 0; i < kNumOutputs; ++i) out[i][j] = result;
  }
}

// Any number of buffers: adds up one input after the other in a block of sums, then copies the first output to the
// others. The outputs of a block are written after all its inputs were read.
template <class T, class Finish>
[[gnu::always_inline]] inline void sum_block(const ReductionItem& item, size_t begin, size_t end, Finish finish) {
  std::array<SumOf<T>, kBlockBytes / sizeof(T)> sums;
  const size_t count = (end - begin) / sizeof(T);
  const T* first = at<T>(item.inputs.front(), begin);
#pragma GCC ivdep
  for (size_t j = 0; j < count; ++j) sums[j] = Element<T>::load(first[j]);
  for (const void* input : item.inputs.subspan(1)) {
    const T* in = at<T>(input, begin);
#pragma GCC ivdep
    for (size_t j = 0; j < count; ++j) sums[j] += Element<T>::load(in[j]);
  }
  T* out = at<T>(item.outputs.front(), begin);
#pragma GCC ivdep
  for (size_t j = 0; j < count; ++j) out[j] = Element<T>::store(finish(sums[j]));
  for (void* output : item.outputs.subspan(1)) std::memcpy(at<T>(output, begin), out, end - begin);
}

template <class T, class Finish>
[[gnu::always_inline]] inline void sum(const ReductionItem& item, size_t begin, size_t end, Finish finish) {
  const size_t num_inputs = item.inputs.size();
  if (item.outputs.size() == 1) switch (num_inputs) {
      case 2: return sum_in_one_pass<2, 1, T>(item, begin, end, finish);
      case 3: return sum_in_one_pass<3, 1, T>(item, begin, end, finish);
      case 4: return sum_in_one_pass<4, 1, T>(item, begin, end, finish);
      case 8: return sum_in_one_pass<8, 1, T>(item, begin, end, finish);
    }
  if (std::ranges::equal(item.inputs, item.outputs)) switch (num_inputs) {
      case 2: return sum_in_one_pass<2, 2, T>(item, begin, end, finish);
      case 3: return sum_in_one_pass<3, 3, T>(item, begin, end, finish);
      case 4: return sum_in_one_pass<4, 4, T>(item, begin, end, finish);
      case 8: return sum_in_one_pass<8, 8, T>(item, begin, end, finish);
    }
  for (size_t block = begin; block < end; block += kBlockBytes)
    sum_block<T>(item, block, std::min(block + kBlockBytes, end), finish);
}

template <class T>
[[gnu::always_inline]] inline void reduce(const ReductionItem& item, size_t begin, size_t end) {
  if constexpr (std::is_floating_point_v<SumOf<T>>) {
    if (item.divisor != 1) {
      const auto divisor = static_cast<SumOf<T>>(item.divisor);
      return sum<T>(item, begin, end, [divisor](SumOf<T> value) { return value / divisor; });
    }
  }
  sum<T>(item, begin, end, [](SumOf<T> value) { return value; });
}

// The same code, compiled for the vectors that the processor has: up to four times the baseline's speed in the caches.
#if defined(__x86_64__)
template <class T>
[[gnu::target("avx2")]] void reduce_avx2(const ReductionItem& item, size_t begin, size_t end) {
  reduce<T>(item, begin, end);
}
template <class T>
[[gnu::target("avx512bw,avx512vl")]] void reduce_avx512(const ReductionItem& item, size_t begin, size_t end) {
  reduce<T>(item, begin, end);
}
#endif

template <class T>
ReduceKernel best_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) return reduce_avx512<T>;
  if (__builtin_cpu_supports("avx2")) return reduce_avx2<T>;
#endif
  return reduce<T>;
}

}  // namespace

ReduceKernel reduce_kernel(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
    case Dtype::complex64: return best_kernel<float>();
    case Dtype::float64:
    case Dtype::complex128: return best_kernel<double>();
    case Dtype::float16: return best_kernel<Half>();
    case Dtype::bfloat16: return best_kernel<BFloat16>();
    case Dtype::int8:
    case Dtype::uint8: return best_kernel<uint8_t>();
    case Dtype::int16: return best_kernel<uint16_t>();
    case Dtype::int32: return best_kernel<uint32_t>();
    case Dtype::int64: return best_kernel<uint64_t>();
  }
  return nullptr;
}

}  // namespace tutti
