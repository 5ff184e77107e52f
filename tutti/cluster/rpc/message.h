#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tutti::rpc {

// Bytes that several messages may share on their way out. Nobody writes to them once they are sent.
struct Payload {
  std::shared_ptr<const std::byte[]> bytes = {};
  size_t size = 0;
};

// A message on its way out: its head, and behind it what is too large to be copied.
struct Outgoing {
  std::vector<uint8_t> head;
  Payload payload = {};
};

// A message that came, in the pieces in which it came. Shares their memory.
class Message {
 public:
  using Piece = std::span<const std::byte>;

  Message() = default;
  // `owner` keeps the pieces alive.
  Message(std::shared_ptr<const void> owner, std::vector<Piece> pieces);

  size_t size() const { return size_; }
  // Copies the bytes [begin, begin + count). Throws: data_loss where there are not as many.
  void copy(size_t begin, void* to, size_t count) const;
  // All of them, of a message of at most `max` bytes. Throws: data_loss for a longer one.
  std::vector<uint8_t> bytes(size_t max) const;
  // The CRC-32C of the bytes from `begin` on.
  uint32_t checksum(size_t begin) const;

 private:
  std::shared_ptr<const void> owner_;
  std::vector<Piece> pieces_;
  size_t size_ = 0;
};

}  // namespace tutti::rpc
