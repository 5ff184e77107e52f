#include "tutti/core/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tutti {
namespace {

uint32_t of(const std::string& bytes) { return crc32c(bytes.data(), bytes.size()); }

std::vector<uint8_t> random_bytes(size_t count) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Bit by bit, as the definition says.
uint32_t by_definition(const uint8_t* bytes, size_t num_bytes) {
  uint32_t crc = ~0U;
  for (size_t i = 0; i < 8 * num_bytes; ++i) crc = crc >> 1 ^ ((crc ^ bytes[i / 8] >> i % 8) & 1 ? 0x82f63b78U : 0);
  return ~crc;
}

TEST(Crc32c, IsThatOfThePublishedVectors) {
  EXPECT_EQ(of(""), 0U);
  EXPECT_EQ(of("123456789"), 0xe3069283U);
  EXPECT_EQ(of(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(of(std::string(32, '\xff')), 0x62a8ab43U);
}

TEST(Crc32c, IsTheSameByProductsByInstructionByTableAndByDefinition) {
  const auto bytes = random_bytes(40'000);
  for (const size_t count : {1, 7, 8, 9, 383, 384, 385, 511, 512, 513, 575, 777, 1'023, 12'287, 12'288, 12'289, 30'001})
    for (const size_t first : {0, 1, 5}) {
      const uint32_t expected = by_definition(bytes.data() + first, count);
      EXPECT_EQ(crc32c(bytes.data() + first, count), expected) << count << " bytes from " << first;
      EXPECT_EQ(crc32c_internal::by_instruction(bytes.data() + first, count, 0), expected)
          << count << " bytes from " << first;
      EXPECT_EQ(crc32c_internal::by_table(bytes.data() + first, count, 0), expected)
          << count << " bytes from " << first;
    }
}

TEST(Crc32c, OfPiecesIsThatOfTheWhole) {
  const auto bytes = random_bytes(20'000);
  const uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (const size_t cut : {0, 1, 13, 4096, 19'999, 20'000}) {
    EXPECT_EQ(crc32c(bytes.data() + cut, bytes.size() - cut, crc32c(bytes.data(), cut)), whole);
    const uint32_t first = crc32c_internal::by_table(bytes.data(), cut, 0);
    EXPECT_EQ(crc32c_internal::by_table(bytes.data() + cut, bytes.size() - cut, first), whole);
    const uint32_t again = crc32c_internal::by_instruction(bytes.data(), cut, 0);
    EXPECT_EQ(crc32c_internal::by_instruction(bytes.data() + cut, bytes.size() - cut, again), whole);
  }
}

TEST(Crc32c, IsMaskedAsTensorFlowDoesAndUnmasked) {
  EXPECT_EQ(mask_crc32c(3251651376U), 686059128U);  // of "a"
  for (const uint32_t crc : {0U, 1U, 0x8000U, 0xe3069283U, ~0U}) EXPECT_EQ(unmask_crc32c(mask_crc32c(crc)), crc);
}

}  // namespace
}  // namespace tutti
