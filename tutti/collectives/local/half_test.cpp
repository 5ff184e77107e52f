#include "tutti/collectives/local/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tutti {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a finite, non-negative float16, from the definition of the format.
double value_of(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10);
  const double fraction = bits & 0x3ffU;
  return exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, EveryValueBecomesTheFloatThatTheFormatDefines) {
  for (uint32_t bits = 0; bits < 0x7c00U; ++bits) {
    ASSERT_EQ(to_float(Half{static_cast<uint16_t>(bits)}), value_of(bits)) << bits;
    ASSERT_EQ(to_float(Half{static_cast<uint16_t>(bits | 0x8000U)}), -value_of(bits)) << bits;
  }
  EXPECT_EQ(to_float(Half{0x7c00}), kInfinity);
  EXPECT_EQ(to_float(Half{0xfc00}), -kInfinity);
  for (uint32_t bits = 0x7c01U; bits < 0x8000U; ++bits)
    ASSERT_TRUE(std::isnan(to_float(Half{static_cast<uint16_t>(bits)}))) << bits;
  EXPECT_TRUE(std::signbit(to_float(Half{0x8000})));
}

TEST(Half, FloatsRoundToTheNearestAndTiesToTheEvenOne) {
  for (uint32_t bits = 0; bits < 0x7c00U; ++bits) {
    const double next = bits == 0x7bffU ? 65536.0 : value_of(bits + 1);
    const auto middle = static_cast<float>((value_of(bits) + next) / 2);  // exact
    ASSERT_EQ(to_half(static_cast<float>(value_of(bits))).bits, bits);
    ASSERT_EQ(to_half(std::nextafter(middle, 0.0F)).bits, bits);
    ASSERT_EQ(to_half(middle).bits, bits + (bits & 1U));
    ASSERT_EQ(to_half(std::nextafter(middle, kInfinity)).bits, bits + 1);
    ASSERT_EQ(to_half(-middle).bits, 0x8000U | (bits + (bits & 1U)));
  }
  for (const float large : {65536.0F, 1e30F, kInfinity}) EXPECT_EQ(to_half(large).bits, 0x7c00);
  EXPECT_EQ(to_half(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_TRUE(std::isnan(to_float(to_half(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(BFloat16, IsTheUpperHalfOfAFloatRoundedToEven) {
  for (uint32_t bits = 0; bits < 0x7f80U; ++bits) {
    const float value = to_float(BFloat16{static_cast<uint16_t>(bits)});
    const auto middle = std::bit_cast<float>(bits << 16 | 0x8000U);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    ASSERT_EQ(to_bfloat16(value).bits, bits);
    ASSERT_EQ(to_bfloat16(std::nextafter(middle, 0.0F)).bits, bits);
    ASSERT_EQ(to_bfloat16(middle).bits, bits + (bits & 1U));
    ASSERT_EQ(to_bfloat16(std::nextafter(middle, kInfinity)).bits, bits + 1);
  }
  EXPECT_EQ(to_bfloat16(kInfinity).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7fffffffU)))));
}

}  // namespace
}  // namespace tutti
