#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

// CRC-32C (Castagnoli) of `before`'s bytes followed by these: the checksum of a stream is computed piece by piece, from
// 0 on. At the speed of memory where the processor has the instruction (SSE 4.2, ARMv8 CRC), at that of its cache where
// it multiplies four pairs of polynomials at once (AVX-512 with VPCLMULQDQ). Source: RFC 3720, B.4.
uint32_t crc32c(const void* bytes, size_t num_bytes, uint32_t before = 0);

// The form in which record files and checkpoints store a checksum: one of bytes that hold checksums themselves would
// say little. TF: crc32c::Mask, crc32c::Unmask.
constexpr uint32_t mask_crc32c(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8U; }
constexpr uint32_t unmask_crc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8U;
  return rotated >> 17 | rotated << 15;
}

namespace crc32c_internal {

// The same without products; without the instruction too. Where there is no instruction, the first is the second.
uint32_t by_instruction(const void* bytes, size_t num_bytes, uint32_t before);
uint32_t by_table(const void* bytes, size_t num_bytes, uint32_t before);

}  // namespace crc32c_internal

}  // namespace tutti
