#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti {

// The dtypes that collectives can sum: LibTorch's without bool, quantized and 8-bit floating-point ones.
enum class Dtype : uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  complex64,
  complex128,
  int8,
  uint8,
  int16,
  int32,
  int64
};

// Bytes of one element.
constexpr size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::int8:
    case Dtype::uint8: return 1;
    case Dtype::float16:
    case Dtype::bfloat16:
    case Dtype::int16: return 2;
    case Dtype::float32:
    case Dtype::int32: return 4;
    case Dtype::float64:
    case Dtype::complex64:
    case Dtype::int64: return 8;
    case Dtype::complex128: return 16;
  }
  return 0;
}

constexpr bool is_integral(Dtype dtype) { return dtype >= Dtype::int8; }

constexpr std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32: return "float32";
    case Dtype::float64: return "float64";
    case Dtype::float16: return "float16";
    case Dtype::bfloat16: return "bfloat16";
    case Dtype::complex64: return "complex64";
    case Dtype::complex128: return "complex128";
    case Dtype::int8: return "int8";
    case Dtype::uint8: return "uint8";
    case Dtype::int16: return "int16";
    case Dtype::int32: return "int32";
    case Dtype::int64: return "int64";
  }
  return "unknown";
}

}  // namespace tutti
