#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tutti/distribute/servers/message.h"

namespace tutti::servers {

// A message with long parts, which are copied by who sends it. Until then they must stay. Each begins where numbers of
// 8 bytes can be read.
class LongMessage {
 public:
  explicit LongMessage(Kind kind) : short_(message_of(kind)) {}
  explicit LongMessage(ByteWriter whole) : short_(std::move(whole)) {}

  void number(int64_t value) { short_.number(value); }
  // Copied at once.
  void raw(const void* from, size_t count) { short_.raw(from, count); }
  // `owner`, where there is one, keeps the bytes, and nobody writes to them any more: they need not be copied at all.
  void part(const void* from, size_t count, const std::shared_ptr<const void>& owner = {}) {
    static constexpr uint8_t kPadding[sizeof(int64_t)] = {};
    raw(kPadding, padding(short_.bytes().size() + part_bytes_));
    const rpc::Payload bytes = rpc::Payload::lent(from, count);
    parts_.emplace_back(short_.bytes().size(), rpc::Payload{{owner, bytes.bytes.get()}, count});
    part_bytes_ += count;
  }

  // They stay as long as this, and what was given to it.
  std::vector<rpc::Payload> parts() const {
    std::vector<rpc::Payload> all;
    size_t next = 0;
    const auto add_short = [&](size_t end) {
      if (end > next) all.push_back(rpc::Payload::lent(short_.bytes().data() + next, end - next));
      next = end;
    };
    for (const auto& [behind, part] : parts_) {
      add_short(behind);
      all.push_back(part);
    }
    add_short(short_.bytes().size());
    return all;
  }
  Bytes bytes() const {
    Bytes all;
    for (const rpc::Payload& part : parts()) {
      const auto* begin = reinterpret_cast<const uint8_t*>(part.bytes.get());
      all.insert(all.end(), begin, begin + part.size);
    }
    return all;
  }

  static size_t padding(size_t position) { return (sizeof(int64_t) - position % sizeof(int64_t)) % sizeof(int64_t); }

 private:
  ByteWriter short_;
  std::vector<std::pair<size_t, rpc::Payload>> parts_;  // each behind so many bytes that were copied
  size_t part_bytes_ = 0;
};

// The next part of one.
inline const uint8_t* read_part(ByteReader& reader, size_t count) {
  reader.raw(LongMessage::padding(reader.position()));
  return reader.raw(count);
}

}  // namespace tutti::servers
