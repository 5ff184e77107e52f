#include "tutti/core/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define TUTTI_CRC32C __attribute__((target("sse4.2")))
#define TUTTI_CRC32C_WIDE __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))
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

#if defined(__x86_64__)

constexpr size_t kBlock = 64;     // bytes of a register
constexpr size_t kRegisters = 4;  // that are folded side by side, to hide the latency
bool has_wide_products() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq"); }

// What makes each 128 bits of a register stand `kBytes` further on: the products of their halves with these powers have
// the same remainder as if so many zeros followed. A product of reflected polynomials lacks one factor x, hence the
// shift.
template <size_t kBytes>
TUTTI_CRC32C_WIDE inline __m512i advanced(__m512i block, __m512i next) {
  static constexpr uint64_t kFirst = uint64_t{power_of_x(8 * kBytes + 32)} << 1;
  static constexpr uint64_t kSecond = uint64_t{power_of_x(8 * kBytes - 32)} << 1;
  const __m512i powers = _mm512_set4_epi64(kSecond, kFirst, kSecond, kFirst);
  const __m512i first = _mm512_clmulepi64_epi128(block, powers, 0x00);
  const __m512i second = _mm512_clmulepi64_epi128(block, powers, 0x11);
  constexpr int kSumOfThree = 0x96;
  return _mm512_ternarylogic_epi64(first, second, next, kSumOfThree);
}

// Takes as many blocks as it can, at least two times kRegisters, and leaves their remainder: 64 bytes of equal
// checksum.
TUTTI_CRC32C_WIDE uint64_t by_products(const uint8_t*& at, size_t& left, uint64_t crc) {
  constexpr size_t kStep = kRegisters * kBlock;
  __m512i sums[kRegisters];  // NOLINT(*-avoid-c-arrays): a template would ignore the type's alignment
  for (size_t i = 0; i < kRegisters; ++i) sums[i] = _mm512_loadu_si512(at + i * kBlock);
  sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi64_si128(static_cast<int64_t>(crc))));
  for (at += kStep, left -= kStep; left >= kStep; at += kStep, left -= kStep)
    for (size_t i = 0; i < kRegisters; ++i) sums[i] = advanced<kStep>(sums[i], _mm512_loadu_si512(at + i * kBlock));
  __m512i sum = sums[0];
  for (size_t i = 1; i < kRegisters; ++i) sum = advanced<kBlock>(sum, sums[i]);
  alignas(kBlock) std::array<uint64_t, kBlock / 8> rest;
  _mm512_store_si512(rest.data(), sum);
  crc = 0;
  for (const uint64_t word : rest) crc = add(crc, word);
  return crc;
}

#endif

// `crc` is the complement of the checksum of what stands before.
TUTTI_CRC32C uint32_t by_words(const uint8_t* at, size_t left, uint64_t crc) {
  crc = by_three<4096>(at, left, crc);
  crc = by_three<128>(at, left, crc);
  for (; left >= 8; left -= 8, at += 8) crc = add(crc, load<uint64_t>(at));
  auto narrow = static_cast<uint32_t>(crc);
  for (; left > 0; --left, ++at) narrow = add(narrow, *at);
  return ~narrow;
}

#endif

}  // namespace

uint32_t crc32c(const void* bytes, size_t num_bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool wide = has_wide_products();
  if (wide && num_bytes >= 2 * kRegisters * kBlock) {
    const auto* at = static_cast<const uint8_t*>(bytes);
    const uint64_t crc = by_products(at, num_bytes, static_cast<uint32_t>(~before));
    return by_words(at, num_bytes, crc);
  }
#endif
  return crc32c_internal::by_instruction(bytes, num_bytes, before);
}

uint32_t crc32c_internal::by_instruction(const void* bytes, size_t num_bytes, uint32_t before) {
#ifdef TUTTI_CRC32C
  static const bool fast = has_instruction();
  if (fast) return by_words(static_cast<const uint8_t*>(bytes), num_bytes, static_cast<uint32_t>(~before));
#endif
  return by_table(bytes, num_bytes, before);
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
