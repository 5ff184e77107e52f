#pragma once

#include <optional>
#include <string>

#include "tutti/cluster/rpc/message.h"
#include "tutti/collectives/shared_memory/group_memory.h"
#include "tutti/core/error.h"

// What the members of a ring group send each other. Nothing of it is believed: sizes are compared with those that the
// receiver expects, and the bytes with their checksum.
namespace tutti {

enum class RingMessageKind : uint32_t {
  first,    // of a call: which one, and its first bytes
  more,     // bytes of the same call
  failure,  // ends the group: the ErrorCode and the text of the cause
  goodbye,  // the member makes no more calls; the number is that of the next message, which never comes
};

// The head of each message; the bytes follow.
struct RingHead {
  RingMessageKind kind;
  uint32_t checksum;  // CRC-32C of the bytes, then of this head with a checksum of 0, then of what tells the call
  uint64_t number;    // of the message among those of calls to this member, from 0
  uint64_t size;      // bytes
};

// A message as it is sent; `checksum` is the CRC-32C of the payload.
rpc::Outgoing ring_message(const CallRecord* first, uint64_t number, const rpc::Payload& payload, uint32_t checksum);
rpc::Outgoing ring_failure(const Error& error);
rpc::Outgoing ring_goodbye(uint64_t number);

// A message as it came.
class RingMessage {
 public:
  // Throws: data_loss for what is none, and for another checksum.
  static RingMessage parse(rpc::Message message);

  RingMessageKind kind() const { return head_.kind; }
  const std::optional<CallRecord>& call() const { return call_; }  // of the first
  uint64_t number() const { return head_.number; }
  size_t size() const { return head_.size; }
  // Throws: data_loss unless it has exactly as many bytes.
  void copy(void* to, size_t size) const;
  Error error() const;  // of a failure

 private:
  rpc::Message message_;
  RingHead head_ = {};
  size_t begin_ = 0;  // of its bytes
  std::optional<CallRecord> call_;
};

}  // namespace tutti
