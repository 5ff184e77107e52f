#include "tutti/core/siphash.h"

#include <bit>
#include <cstring>

namespace tutti {
namespace {

static_assert(std::endian::native == std::endian::little);

struct SipState {
  uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1, v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0, v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1, v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2, v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }

  void take(uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
};

}  // namespace

uint64_t siphash24(std::string_view bytes, uint64_t first_key, uint64_t second_key) {
  // "somepseudorandomlygeneratedbytes"
  SipState state{first_key ^ 0x736f6d6570736575, second_key ^ 0x646f72616e646f6d, first_key ^ 0x6c7967656e657261,
                 second_key ^ 0x7465646279746573};
  uint64_t last = uint64_t{bytes.size()} << 56;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    state.take(word);
  }
  for (size_t i = 0; i < bytes.size(); ++i) last |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  state.take(last);
  state.v2 ^= 0xff;
  state.rounds(4);
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace tutti
