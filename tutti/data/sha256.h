#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti::data {

// SHA-256 of bytes that come in pieces. Source: FIPS 180-4.
class Sha256 {
 public:
  void update(const void* bytes, size_t count);
  // 64 hexadecimal digits in lower case. Call it once, at the end.
  std::string finish();

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_{};  // bytes that do not fill a block yet
  size_t num_rest_ = 0;
  uint64_t num_bytes_ = 0;
};

}  // namespace tutti::data
