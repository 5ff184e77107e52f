#include "tutti/core/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define TUTTI_CRC32C __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define TUTTI_CRC32C __attribute__((target("+crc")))
#endif

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little);

// Polynomials over GF(2) modulo that of CRC-32C, x^31 in the lowest bit.
constexpr uint32_t kOne = 1U << 31;
constexpr uint32_t kPolynomial = 0x82f63b78U;

constexpr uint32_t times_x(uint32_t a) { return a & 1 ? a >> 1 ^ kPolynomial : a >> 1; }

constexpr uint32_t product(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (; a != 0; a <<= 1, b = times_x(b))
    if (a & kOne) sum ^= b;
  return sum;
}

constexpr uint32_t power_of_x(size_t exponent) {
  uint32_t power = kOne;
  for (uint32_t square = times_x(kOne); exponent != 0; exponent >>= 1, square = product(square, square))
    if (exponent & 1) power = product(power, square);
  return power;
}

// What a checksum becomes when zero bytes follow: a product with a power of x, looked up byte by byte.
class Zeros {
 public:
  explicit constexpr Zeros(size_t count) {
    const uint32_t power = power_of_x(8 * count);
    for (size_t place = 0; place < 4; ++place) {
      auto& row = rows_[place];
      for (size_t bit = 0; bit < 8; ++bit) row[size_t{1} << bit] = product(uint32_t{1} << (8 * place + bit), power);
      for (size_t byte = 1; byte < row.size(); ++byte) row[byte] = row[byte & (byte - 1)] ^ row[byte & -byte];
    }
  }

  constexpr uint32_t after(uint64_t crc) const {
    return rows_[0][crc & 255] ^ rows_[1][crc >> 8 & 255] ^ rows_[2][crc >> 16 & 255] ^ rows_[3][crc >> 24];
  }

  // After four zeros: the same for a checksum of one byte, after one.
  constexpr uint32_t last_byte(uint32_t byte) const { return rows_[3][byte]; }

 private:
  std::array<std::array<uint32_t, 256>, 4> rows_{};
};

constexpr Zeros kFour(4);
constexpr Zeros kEight(8);

template <class Word>
Word load(const uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

#ifdef TUTTI_CRC32C

#if defined(__x86_64__)
bool has_instruction() { return __builtin_cpu_supports("sse4.2"); }
TUTTI_CRC32C inline uint32_t add(uint32_t crc, uint8_t byte) { return _mm_crc32_u8(crc, byte); }
TUTTI_CRC32C inline uint64_t add(uint64_t crc, uint64_t word) { return _mm_crc32_u64(crc, word); }
#else
bool has_instruction() { return getauxval(AT_HWCAP) & HWCAP_CRC32; }
TUTTI_CRC32C inline uint32_t add(uint32_t crc, uint8_t byte) { return __crc32cb(crc, byte); }
TUTTI_CRC32C inline uint64_t add(uint64_t crc, uint64_t word) { return __crc32cd(static_cast<uint32_t>(crc), word); }
#endif

// The instruction takes one cycle, its result three: three stretches side by side, joined by what zeros do. Checksums
// are 64 bits wide here, as the instruction gives them: cutting each would double its latency.
// V. Gopal et al., Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction, Intel 2011.
template <size_t kStretch>
TUTTI_CRC32C uint64_t by_three(const uint8_t*& at, size_t& left, uint64_t crc) {
  static constexpr Zeros kZeros(kStretch);
  for (; left >= 3 * kStretch; left -= 3 * kStretch, at += 3 * kStretch) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kStretch; i += 8) {
      crc = add(crc, load<uint64_t>(at + i));
      second = add(second, load<uint64_t>(at + kStretch + i));
      third = add(third, load<uint64_t>(at + 2 * kStretch + i));
    }
    crc = kZeros.after(kZeros.after(crc) ^ second) ^ third;
  }
  return crc;
}

TUTTI_CRC32C uint32_t by_instruction(const void* bytes, size_t num_bytes, uint32_t before) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  uint64_t wide = by_three<4096>(at, num_bytes, ~before);
  wide = by_three<128>(at, num_bytes, wide);
  for (; num_bytes >= 8; num_bytes -= 8, at += 8) wide = add(wide, load<uint64_t>(at));
  auto crc = static_cast<uint32_t>(wide);
  for (; num_bytes > 0; --num_bytes, ++at) crc = add(crc, *at);
  return ~crc;
}

#endif

}  // namespace

uint32_t crc32c(const void* bytes, size_t num_bytes, uint32_t before) {
#ifdef TUTTI_CRC32C
  static const bool fast = has_instruction();
  if (fast) return by_instruction(bytes, num_bytes, before);
#endif
  return crc32c_internal::by_table(bytes, num_bytes, before);
}

// Eight bytes a step. M. E. Kounavis, F. L. Berry, A Systematic Approach to Building High Performance Software-based
// CRC Generators, ISCC 2005.
uint32_t crc32c_internal::by_table(const void* bytes, size_t num_bytes, uint32_t before) {
  const auto* at = static_cast<const uint8_t*>(bytes);
  uint32_t crc = ~before;
  for (; num_bytes >= 8; num_bytes -= 8, at += 8)
    crc = kEight.after(crc ^ load<uint32_t>(at)) ^ kFour.after(load<uint32_t>(at + 4));
  for (; num_bytes > 0; --num_bytes, ++at) crc = crc >> 8 ^ kFour.last_byte((crc ^ *at) & 255);
  return ~crc;
}

}  // namespace tutti
