#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

// Storage of the two 16-bit floating-point formats and their conversions, without branches so that loops over them
// become vector code on any processor. Rounding is to nearest even, as LibTorch's.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// condition ? yes : no, in a form that compilers leave without a branch.
constexpr uint32_t select_bits(bool condition, uint32_t yes, uint32_t no) {
  return no ^ ((yes ^ no) & (0U - condition));
}

// bfloat16 is the upper half of a float32.
constexpr float to_float(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

constexpr BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return {static_cast<uint16_t>(select_bits(is_nan, 0x7fc0U, rounded))};
}

// float16: 1 sign bit, 5 exponent bits (bias 15), 10 fraction bits.
constexpr float to_float(Half value) {
  const uint32_t sign = (value.bits & 0x8000U) << 16;
  const uint32_t magnitude = value.bits & 0x7fffU;
  // Moves the exponent so far up that infinity and NaN become float32's, then scales back.
  const float normal = std::bit_cast<float>((magnitude << 13) + (224U << 23)) * 0x1p-112F;
  // A subnormal is a number of steps of 2^-24, and so are the last bits of the floats from 0.5 up.
  const float subnormal = std::bit_cast<float>(magnitude | std::bit_cast<uint32_t>(0.5F)) - 0.5F;
  const bool is_subnormal = magnitude < 0x0400U;
  return std::bit_cast<float>(
      select_bits(is_subnormal, std::bit_cast<uint32_t>(subnormal), std::bit_cast<uint32_t>(normal)) | sign);
}

constexpr Half to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  // Changes the bias from 127 to 15 and rounds; a carry goes into the exponent, up to infinity.
  const uint32_t normal = (magnitude - (112U << 23) + 0x0fffU + ((magnitude >> 13) & 1U)) >> 13;
  // Adding 0.5 lets the processor round to steps of 2^-24.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  uint32_t result = select_bits(magnitude < (113U << 23), subnormal, normal);
  result = select_bits(magnitude >= std::bit_cast<uint32_t>(65536.0F), 0x7c00U, result);
  result = select_bits(magnitude > 0x7f800000U, 0x7e00U, result);
  return {static_cast<uint16_t>(result | sign)};
}

}  // namespace tutti
