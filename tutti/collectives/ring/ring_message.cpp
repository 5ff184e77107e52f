#include "tutti/collectives/ring/ring_message.h"

#include <cstring>
#include <type_traits>

#include "tutti/core/crc32c.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

static_assert(std::is_trivially_copyable_v<CallRecord>);
constexpr size_t kMaxFailureText = 4096;

// Of the head and what tells the call, behind bytes of which `of_bytes` is the checksum.
uint32_t checksum_of(RingHead head, const CallRecord* call, uint32_t of_bytes) {
  head.checksum = 0;
  const uint32_t with_head = crc32c(&head, sizeof head, of_bytes);
  return call ? crc32c(call, sizeof *call, with_head) : with_head;
}

rpc::Outgoing with_head(RingHead head, const CallRecord* call, uint32_t of_bytes) {
  head.checksum = checksum_of(head, call, of_bytes);
  rpc::Outgoing message;
  message.head.resize(sizeof head + (call ? sizeof *call : 0));
  std::memcpy(message.head.data(), &head, sizeof head);
  if (call) std::memcpy(message.head.data() + sizeof head, call, sizeof *call);
  return message;
}

}  // namespace

rpc::Outgoing ring_message(const CallRecord* first, uint64_t number, const rpc::Payload& payload, uint32_t checksum) {
  const RingHead head{.kind = first ? RingMessageKind::first : RingMessageKind::more,
                      .checksum = 0,
                      .number = number,
                      .size = payload.size};
  rpc::Outgoing message = with_head(head, first, checksum);
  message.payload = payload;
  return message;
}

rpc::Outgoing ring_failure(const Error& error) {
  const auto code = static_cast<uint32_t>(error.code());
  const std::string text = std::string(error.what()).substr(0, kMaxFailureText);
  const size_t size = sizeof code + text.size();
  const uint32_t checksum = crc32c(text.data(), text.size(), crc32c(&code, sizeof code));
  rpc::Outgoing message =
      with_head({.kind = RingMessageKind::failure, .checksum = 0, .number = 0, .size = size}, nullptr, checksum);
  message.head.resize(sizeof(RingHead) + size);
  std::memcpy(message.head.data() + sizeof(RingHead), &code, sizeof code);
  std::memcpy(message.head.data() + sizeof(RingHead) + sizeof code, text.data(), text.size());
  return message;
}

rpc::Outgoing ring_goodbye(uint64_t number) {
  return with_head({.kind = RingMessageKind::goodbye, .checksum = 0, .number = number, .size = 0}, nullptr, 0);
}

RingMessage RingMessage::parse(rpc::Message message) {
  RingMessage parsed;
  message.copy(0, &parsed.head_, sizeof parsed.head_);
  parsed.begin_ = sizeof parsed.head_;
  if (parsed.head_.kind > RingMessageKind::goodbye)
    throw Error(ErrorCode::data_loss, str("a message is of the kind ", static_cast<uint32_t>(parsed.head_.kind)));
  if (parsed.head_.kind == RingMessageKind::first) {
    message.copy(parsed.begin_, &parsed.call_.emplace(), sizeof(CallRecord));
    parsed.begin_ += sizeof(CallRecord);
  }
  if (message.size() - parsed.begin_ != parsed.head_.size)
    throw Error(ErrorCode::data_loss, str("a message has ", message.size() - parsed.begin_,
                                          " bytes and says that it has ", parsed.head_.size));
  const CallRecord* const call = parsed.call_ ? &*parsed.call_ : nullptr;
  if (checksum_of(parsed.head_, call, message.checksum(parsed.begin_)) != parsed.head_.checksum)
    throw Error(ErrorCode::data_loss, str("the ", parsed.head_.size, " bytes of a message were changed on their way"));
  parsed.message_ = std::move(message);
  return parsed;
}

void RingMessage::copy(void* to, size_t size) const {
  if (size != head_.size)
    throw Error(ErrorCode::data_loss, str("a message has ", head_.size, " bytes where ", size, " were to come"));
  message_.copy(begin_, to, size);
}

Error RingMessage::error() const {
  uint32_t code = 0;
  message_.copy(begin_, &code, sizeof code);
  if (code > static_cast<uint32_t>(ErrorCode::internal)) code = static_cast<uint32_t>(ErrorCode::internal);
  std::string text(std::min(head_.size - sizeof code, kMaxFailureText), '\0');
  message_.copy(begin_ + sizeof code, text.data(), text.size());
  return Error(static_cast<ErrorCode>(code), text);
}

}  // namespace tutti
