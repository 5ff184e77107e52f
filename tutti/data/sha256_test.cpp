#include "tutti/data/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::data {
namespace {

std::string sha256(const std::string& text, size_t piece) {
  Sha256 hash;
  for (size_t i = 0; i < text.size(); i += piece) hash.update(text.data() + i, std::min(piece, text.size() - i));
  return hash.finish();
}

// Examples of NIST (FIPS 180-4, csrc.nist.gov/projects/cryptographic-standards-and-guidelines/example-values).
TEST(Sha256, GivesThePublishedValues) {
  EXPECT_EQ(sha256("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a'), 1'000'000),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowBytesArePacked) {
  for (const size_t length : {55U, 56U, 63U, 64U, 65U, 200U})
    for (const size_t piece : {1U, 7U, 63U, 64U, 65U})
      EXPECT_EQ(sha256(std::string(length, 'x'), piece), sha256(std::string(length, 'x'), length));
}

}  // namespace
}  // namespace tutti::data
