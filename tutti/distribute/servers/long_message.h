#pragma once

#include <span>
#include <utility>
#include <vector>

#include "tutti/distribute/servers/message.h"

namespace tutti::servers {

// A message with long parts, each of which is copied once: when the whole is put together. Until then it must stay.
class LongMessage {
 public:
  explicit LongMessage(Kind kind) : short_(message_of(kind)) {}

  void number(int64_t value) { short_.number(value); }
  // Copied at once.
  void raw(const void* from, size_t count) { short_.raw(from, count); }
  void part(const void* from, size_t count) {
    parts_.emplace_back(short_.bytes().size(), std::span(static_cast<const uint8_t*>(from), count));
    part_bytes_ += count;
  }

  Bytes bytes() const {
    Bytes all;
    all.reserve(short_.bytes().size() + part_bytes_);
    auto next = short_.bytes().begin();
    for (const auto& [behind, part] : parts_) {
      const auto end = short_.bytes().begin() + static_cast<std::ptrdiff_t>(behind);
      all.insert(all.end(), next, end);
      all.insert(all.end(), part.begin(), part.end());
      next = end;
    }
    all.insert(all.end(), next, short_.bytes().end());
    return all;
  }

 private:
  ByteWriter short_;
  std::vector<std::pair<size_t, std::span<const uint8_t>>> parts_;  // each behind so many bytes that were copied
  size_t part_bytes_ = 0;
};

}  // namespace tutti::servers
