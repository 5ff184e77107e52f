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

  // Bytes that somebody else owns, who keeps them until Stream::send has returned. What is not written by then is
  // copied.
  static Payload lent(const void* bytes, size_t size);
  bool is_lent() const { return size > 0 && bytes.use_count() == 0; }
  // `count` of them, from `begin` on.
  Payload part(size_t begin, size_t count) const;
};

// A message on its way out: its head, and behind it what is too large to be copied.
struct Outgoing {
  std::vector<uint8_t> head;
  Payload payload = {};
  std::vector<Payload> more = {};  // behind that; of what streams carry

  size_t size() const;
  void keep();  // copies what is lent
};

// A message that came, in the pieces in which it came. Shares their memory.
class Message {
 public:
  using Piece = std::span<const std::byte>;

  Message() = default;
  // `owner` keeps the pieces alive.
  Message(std::shared_ptr<const void> owner, std::vector<Piece> pieces);

  size_t size() const { return size_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
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
