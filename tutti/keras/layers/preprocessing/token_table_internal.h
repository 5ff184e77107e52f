#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::keras::layers {

// Distinct tokens, numbered from 0 in the order in which they came: an open-addressing hash table over text in one
// piece, which finds a token without making a string of it.
class TokenTable {
 public:
  static constexpr int64_t kAbsent = -1;

  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  std::string_view operator[](int64_t number) const;

  // The number of a token, or kAbsent.
  int64_t find(std::string_view token) const;
  // The number of a token; it is the size before the call if the token is new.
  int64_t insert(std::string_view token);

 private:
  struct Slot {
    uint64_t hash = 0;
    int64_t number = kAbsent;
  };

  // Where the token is, or would be put.
  size_t slot_of(std::string_view token, uint64_t hash) const;
  void grow();

  std::string text_;                                 // the tokens, one after the other
  std::vector<size_t> ends_;                         // in text_
  std::vector<Slot> slots_ = std::vector<Slot>(16);  // a power of two, at most half of them taken
};

}  // namespace tutti::keras::layers
