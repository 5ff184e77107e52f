#include "tutti/core/fingerprint64.h"

#include <bit>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little);

// Primes between 2^63 and 2^64, as FarmHash has them.
constexpr uint64_t k0 = 0xc3a5c85c97cb3127;
constexpr uint64_t k1 = 0xb492b66fbe98f273;
constexpr uint64_t k2 = 0x9ae16a3b2f90404f;

template <class Word>
Word load(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
uint64_t word(const char* at) { return load<uint64_t>(at); }
uint64_t byte(char c) { return static_cast<uint8_t>(c); }

uint64_t rotate(uint64_t value, int bits) { return std::rotr(value, bits); }
uint64_t shift_mix(uint64_t value) { return value ^ (value >> 47); }

uint64_t mix(uint64_t u, uint64_t v, uint64_t multiplier) {
  const uint64_t a = shift_mix((u ^ v) * multiplier);
  return shift_mix((v ^ a) * multiplier) * multiplier;
}

uint64_t of_up_to_16(const char* s, size_t size) {
  const uint64_t multiplier = k2 + 2 * size;
  if (size >= 8) {
    const uint64_t a = word(s) + k2, b = word(s + size - 8);
    return mix(rotate(b, 37) * multiplier + a, (rotate(a, 25) + b) * multiplier, multiplier);
  }
  if (size >= 4) return mix(size + (uint64_t{load<uint32_t>(s)} << 3), load<uint32_t>(s + size - 4), multiplier);
  if (size == 0) return k2;
  const uint64_t y = byte(s[0]) + (byte(s[size / 2]) << 8), z = size + (byte(s[size - 1]) << 2);
  return shift_mix(y * k2 ^ z * k0) * k2;
}

uint64_t of_up_to_32(const char* s, size_t size) {
  const uint64_t multiplier = k2 + 2 * size;
  const uint64_t a = word(s) * k1, b = word(s + 8);
  const uint64_t c = word(s + size - 8) * multiplier, d = word(s + size - 16) * k2;
  return mix(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + k2, 18) + c, multiplier);
}

uint64_t of_up_to_64(const char* s, size_t size) {
  const uint64_t multiplier = k2 + 2 * size;
  const uint64_t a = word(s) * k2, b = word(s + 8);
  const uint64_t c = word(s + size - 8) * multiplier, d = word(s + size - 16) * k2;
  const uint64_t y = rotate(a + b, 43) + rotate(c, 30) + d;
  const uint64_t z = mix(y, a + rotate(b + k2, 18) + c, multiplier);
  const uint64_t e = word(s + 16) * multiplier, f = word(s + 24);
  const uint64_t g = (y + word(s + size - 32)) * multiplier, h = (z + word(s + size - 24)) * multiplier;
  return mix(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, multiplier);
}

// 56 bytes of state that take in 64 bytes at a time.
struct FingerprintState {
  struct Pair {
    uint64_t first = 0, second = 0;
  };
  uint64_t x, y, z;
  Pair v = {}, w = {};

  // Takes in 32 bytes, weakly: the strong mixing comes with the sum of all.
  static Pair take32(const char* s, uint64_t a, uint64_t b) {
    a += word(s);
    b = rotate(b + a + word(s + 24), 21);
    const uint64_t c = a;
    a += word(s + 8) + word(s + 16);
    return {a + word(s + 24), b + rotate(a, 44) + c};
  }

  // `weight` is 1 but for the last bytes.
  void take64(const char* s, uint64_t multiplier, uint64_t weight) {
    x = rotate(x + y + v.first + word(s + 8), 37) * multiplier;
    y = rotate(y + v.second + word(s + 48), 42) * multiplier;
    x ^= w.second * weight;
    y += v.first * weight + word(s + 40);
    z = rotate(z + w.first, 33) * multiplier;
    v = take32(s, v.second * multiplier, x + w.first);
    w = take32(s + 32, z + w.second, y + word(s + 16));
    std::swap(z, x);
  }
};

uint64_t of_many(const char* s, size_t size) {
  constexpr uint64_t kSeed = 81;
  constexpr uint64_t kY = kSeed * k1 + 113;
  FingerprintState state{.x = kSeed * k2 + word(s), .y = kY, .z = shift_mix(kY * k2 + 113) * k2};
  const char* const last64 = s + size - 64;
  for (; s < last64; s += 64) state.take64(s, k1, 1);

  auto& [x, y, z, v, w] = state;
  const uint64_t multiplier = k1 + ((z & 0xff) << 1);
  w.first += (size - 1) % 64;
  v.first += w.first;
  w.first += v.first;
  state.take64(last64, multiplier, 9);
  return mix(mix(v.first, w.first, multiplier) + shift_mix(y) * k0 + z, mix(v.second, w.second, multiplier) + x,
             multiplier);
}

}  // namespace

uint64_t fingerprint64(std::string_view bytes) {
  const char* const s = bytes.data();
  const size_t size = bytes.size();
  if (size <= 16) return of_up_to_16(s, size);
  if (size <= 32) return of_up_to_32(s, size);
  if (size <= 64) return of_up_to_64(s, size);
  return of_many(s, size);
}

}  // namespace tutti
