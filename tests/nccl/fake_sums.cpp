#include "tests/nccl/fake_sums.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "tutti/collectives/local/half.h"

namespace tutti::nccl::abi {
namespace {

template <class T>
T add(T a, T b) {
  return static_cast<T>(a + b);
}
Half add(Half a, Half b) { return to_half(to_float(a) + to_float(b)); }
BFloat16 add(BFloat16 a, BFloat16 b) { return to_bfloat16(to_float(a) + to_float(b)); }
template <class T>
T multiply(T a, double by) {
  return by == 1 ? a : static_cast<T>(a * static_cast<T>(by));
}
Half multiply(Half a, double by) { return to_half(to_float(a) * static_cast<float>(by)); }
BFloat16 multiply(BFloat16 a, double by) { return to_bfloat16(to_float(a) * static_cast<float>(by)); }

template <class T>
void sum_of(std::span<const Summand> summands, size_t begin, size_t count, void* output) {
  std::vector<T> result(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t first = i * summands.size() / count + 1;
    for (size_t step = 0; step < summands.size(); ++step) {
      const auto& [input, scale] = summands[(first + step) % summands.size()];
      const T value = multiply(static_cast<const T*>(input)[begin + i], scale);
      result[i] = step == 0 ? value : add(result[i], value);
    }
  }
  std::memcpy(output, result.data(), count * sizeof(T));
}

}  // namespace

size_t size_of(DataType type) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8: return 1;
    case DataType::float16:
    case DataType::bfloat16: return 2;
    case DataType::int32:
    case DataType::float32: return 4;
    case DataType::int64:
    case DataType::float64: return 8;
  }
  return 0;
}

void sum(std::span<const Summand> summands, DataType type, size_t begin, size_t count, void* output) {
  switch (type) {
    case DataType::int8: return sum_of<int8_t>(summands, begin, count, output);
    case DataType::uint8: return sum_of<uint8_t>(summands, begin, count, output);
    case DataType::int32: return sum_of<int32_t>(summands, begin, count, output);
    case DataType::int64: return sum_of<int64_t>(summands, begin, count, output);
    case DataType::float16: return sum_of<Half>(summands, begin, count, output);
    case DataType::float32: return sum_of<float>(summands, begin, count, output);
    case DataType::float64: return sum_of<double>(summands, begin, count, output);
    case DataType::bfloat16: return sum_of<BFloat16>(summands, begin, count, output);
  }
}

}  // namespace tutti::nccl::abi
