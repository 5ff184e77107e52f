#pragma once

#include <array>
#include <cstdint>

namespace tutti {

using PhiloxWords = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Philox-4x32-10: four random words for each 128-bit counter, in any order. Source: Salmon et al. 2011,
// doi:10.1145/2063384.2063405, section 4.3.
inline PhiloxWords philox(PhiloxWords counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0];
    const uint64_t second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;  // the golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

// The words that belong to one seed, by their number.
class PhiloxStream {
 public:
  // Spreads a seed over key and counter as TF's StatelessRandomGetKeyCounter does.
  PhiloxStream(uint64_t first, uint64_t second) {
    const PhiloxWords words = philox({static_cast<uint32_t>(first), static_cast<uint32_t>(first >> 32),
                                      static_cast<uint32_t>(second), static_cast<uint32_t>(second >> 32)},
                                     {0x3ec8f720, 0x02461e29});
    key_ = {words[0], words[1]};
    high_ = uint64_t{words[3]} << 32 | words[2];
  }

  PhiloxWords operator[](uint64_t index) const {
    return philox({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(high_),
                   static_cast<uint32_t>(high_ >> 32)},
                  key_);
  }

 private:
  PhiloxKey key_;
  uint64_t high_;  // of the counter, whose low half is the index
};

}  // namespace tutti
