#include "tutti/core/siphash.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

// The paper's test vector: the key's and the text's bytes count up from 0.
TEST(SipHash24, IsThatOfThePublishedVectors) {
  constexpr uint64_t kFirst = 0x0706050403020100, kSecond = 0x0f0e0d0c0b0a0908;
  std::string bytes;
  for (int i = 0; i < 15; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(siphash24(bytes, kFirst, kSecond), 0xa129ca6149be45e5U);
  EXPECT_EQ(siphash24("", kFirst, kSecond), 0x726fdb47dd0e0e31U);
}

TEST(SipHash24, DependsOnBothHalvesOfTheKey) {
  EXPECT_NE(siphash24("a", 1, 2), siphash24("a", 1, 3));
  EXPECT_NE(siphash24("a", 1, 2), siphash24("a", 3, 2));
}

}  // namespace
}  // namespace tutti
