#include "tutti/cluster/rpc/message.h"

#include <algorithm>
#include <cstring>

#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::rpc {

Payload Payload::lent(const void* bytes, size_t size) {
  return {std::shared_ptr<const std::byte[]>(std::shared_ptr<void>(), static_cast<const std::byte*>(bytes)), size};
}

Payload Payload::part(size_t begin, size_t count) const {
  return {std::shared_ptr<const std::byte[]>(bytes, bytes.get() + begin), count};
}

size_t Outgoing::size() const {
  size_t sum = head.size() + payload.size;
  for (const Payload& each : more) sum += each.size;
  return sum;
}

void Outgoing::keep() {
  const auto keep_one = [](Payload& each) {
    if (!each.is_lent()) return;
    auto own = std::make_shared_for_overwrite<std::byte[]>(each.size);
    std::memcpy(own.get(), each.bytes.get(), each.size);
    each.bytes = std::move(own);
  };
  keep_one(payload);
  for (Payload& each : more) keep_one(each);
}

Message::Message(std::shared_ptr<const void> owner, std::vector<Piece> pieces)
    : owner_(std::move(owner)), pieces_(std::move(pieces)) {
  for (const Piece& piece : pieces_) size_ += piece.size();
}

void Message::copy(size_t begin, void* to, size_t count) const {
  if (begin > size_ || count > size_ - begin)
    throw Error(ErrorCode::data_loss,
                str("a message of ", size_, " bytes was to have ", count, " bytes from byte ", begin, " on"));
  auto* next = static_cast<std::byte*>(to);
  for (const Piece& piece : pieces_) {
    if (count == 0) return;
    const size_t skipped = std::min(begin, piece.size()), taken = std::min(count, piece.size() - skipped);
    if (taken > 0) std::memcpy(next, piece.data() + skipped, taken);
    begin -= skipped;
    next += taken;
    count -= taken;
  }
}

std::vector<uint8_t> Message::bytes(size_t max) const {
  if (size_ > max)
    throw Error(ErrorCode::data_loss, str("a message has ", size_, " bytes; ", max, " are the most it can have"));
  std::vector<uint8_t> bytes(size_);
  copy(0, bytes.data(), size_);
  return bytes;
}

uint32_t Message::checksum(size_t begin) const {
  uint32_t crc = 0;
  for (const Piece& piece : pieces_) {
    const size_t skipped = std::min(begin, piece.size());
    crc = crc32c(piece.data() + skipped, piece.size() - skipped, crc);
    begin -= skipped;
  }
  return crc;
}

}  // namespace tutti::rpc
