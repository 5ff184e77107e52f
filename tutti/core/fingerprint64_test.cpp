#include "tutti/core/fingerprint64.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace {

// "abc…zabc…" of this many letters.
std::string letters(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

// What TensorFlow's string_to_hash_bucket_fast gives for 2^62 buckets.
TEST(Fingerprint64, IsThatOfTensorFlow) {
  constexpr uint64_t kBuckets = uint64_t{1} << 62;
  EXPECT_EQ(fingerprint64("") % kBuckets, 1936946117179621455U);
  EXPECT_EQ(fingerprint64("a") % kBuckets, 3694432073954588131U);
  EXPECT_EQ(fingerprint64("hello") % kBuckets, 3786372426573024488U);
  EXPECT_EQ(fingerprint64("日本") % kBuckets, 1065147945313323979U);
  EXPECT_EQ(fingerprint64("The quick brown fox jumps over the lazy dog") % kBuckets, 3152101869897863476U);
  EXPECT_EQ(fingerprint64("-1") % kBuckets, 2722188246723688526U);
  EXPECT_EQ(fingerprint64("abcdefghabcdefghabcdefghabcdefgh1") % kBuckets, 1833600788676943691U);
}

TEST(Fingerprint64, IsThatOfFarmHashForLongText) {
  EXPECT_EQ(fingerprint64(letters(64)), 0x9c4a595c23bb9bfaU);
  EXPECT_EQ(fingerprint64(letters(65)), 0x2434d8917886fe2aU);
  EXPECT_EQ(fingerprint64(letters(128)), 0xc3244d5ec8a4474aU);
  EXPECT_EQ(fingerprint64(letters(129)), 0x9b1ca0571b8cefd4U);
  EXPECT_EQ(fingerprint64(letters(1000)), 0x3bd1a0a1ed089897U);
}

}  // namespace
}  // namespace tutti
