#include "tutti/distribute/servers/link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/servers/long_message.h"

namespace tutti::servers {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20, kMaxBytes = uint64_t{1} << 33;
static_assert(kPieceBytes < rpc::kMaxMessageBytes);

enum class PieceKind : uint32_t { alive, first, more };

// Before the bytes of each piece.
struct PieceHead {
  PieceKind kind;
  uint32_t checksum;  // CRC-32C of the bytes, but for those in shared memory, then of this head with a checksum of 0
  uint64_t size;      // of the whole message, in bytes
};

uint32_t checksum_of(PieceHead head, uint32_t of_bytes) {
  head.checksum = 0;
  return crc32c(&head, sizeof head, of_bytes);
}

bool checks_bytes(const rpc::Stream& stream) { return stream.carriage() != rpc::Carriage::shared_memory; }

void send_piece(rpc::Stream& stream, PieceKind kind, uint64_t size, std::vector<rpc::Payload> bytes) {
  PieceHead head{.kind = kind, .checksum = 0, .size = size};
  uint32_t of_bytes = 0;
  if (checks_bytes(stream))
    for (const rpc::Payload& each : bytes) of_bytes = crc32c(each.bytes.get(), each.size, of_bytes);
  head.checksum = checksum_of(head, of_bytes);
  rpc::Outgoing piece{.head = std::vector<uint8_t>(sizeof head), .payload = {}, .more = std::move(bytes)};
  std::memcpy(piece.head.data(), &head, sizeof head);
  stream.send(std::move(piece));
}

// What is in one piece stays where it is; else it is put together.
Incoming whole(const rpc::Message& piece, uint64_t count) {
  if (piece.pieces().size() == 1) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(piece.pieces()[0].data());
    return {piece.owner(), {bytes + sizeof(PieceHead), count}};
  }
  const auto own = std::make_shared_for_overwrite<uint8_t[]>(count);
  piece.copy(sizeof(PieceHead), own.get(), count);
  return {own, {own.get(), count}};
}

}  // namespace

Incoming::Incoming(Bytes bytes) {
  const auto own = std::make_shared<const Bytes>(std::move(bytes));
  bytes_ = *own;
  owner_ = own;
}

Link::Link(const cluster::Task& peer, std::unique_ptr<rpc::Stream> stream, std::chrono::milliseconds silence)
    : name_(to_string(peer)), silence_(silence), stream_(std::move(stream)) {}

void Link::on_event(std::function<void()> call, bool waits_for_bells) {
  const std::lock_guard lock(sending_);
  on_event_ = std::move(call);
  waits_for_bells_ = waits_for_bells;
  if (stream_) listen(*stream_);
}

void Link::listen(rpc::Stream& stream) const {
  stream.on_event(waits_for_bells_ && stream.bell() ? nullptr : on_event_);
}

void Link::cut(const std::string& why) {
  std::unique_ptr<rpc::Stream> old;
  {
    const std::lock_guard lock(sending_);
    old.swap(stream_);
    cut_ = why;
  }
  if (old) old->on_event(nullptr);
}

void Link::renew(std::unique_ptr<rpc::Stream> stream) {
  cut("");
  {
    const std::lock_guard lock(sending_);
    listen(*stream);
    stream_ = std::move(stream);
  }
  arriving_.clear();
  is_arriving_ = false;
  heard_ = renewed_ = Clock::now();
}

void Link::send(const std::shared_ptr<const Bytes>& message) {
  const auto* bytes = reinterpret_cast<const std::byte*>(message->data());
  send_parts(std::vector<rpc::Payload>{{std::shared_ptr<const std::byte[]>(message, bytes), message->size()}});
}

void Link::send(const LongMessage& message) { send_parts(message.parts()); }

void Link::send_parts(std::span<const rpc::Payload> parts) {
  uint64_t size = 0;
  for (const rpc::Payload& part : parts) size += part.size;
  if (size > kMaxBytes)
    throw Error(ErrorCode::resource_exhausted,
                str("a message of ", size, " bytes to ", name_, "; at most ", kMaxBytes, " travel together"));
  const std::lock_guard lock(sending_);
  if (!stream_) return;
  std::vector<rpc::Payload> piece;
  uint64_t room = kPieceBytes;
  auto kind = PieceKind::first;
  for (const rpc::Payload& part : parts)
    for (uint64_t begin = 0; begin < part.size;) {
      if (room == 0) {
        send_piece(*stream_, std::exchange(kind, PieceKind::more), size, std::exchange(piece, {}));
        room = kPieceBytes;
      }
      const uint64_t count = std::min(room, part.size - begin);
      piece.push_back(part.part(begin, count));
      begin += count;
      room -= count;
    }
  send_piece(*stream_, kind, size, std::move(piece));
}

void Link::say_alive() {
  const std::lock_guard lock(sending_);
  if (stream_) send_piece(*stream_, PieceKind::alive, 0, {});
}

void Link::throw_lost(const std::string& why) const {
  throw Error(ErrorCode::unavailable, str(name_, " is lost: ", why));
}

// Returns the message that is whole with it.
std::optional<Incoming> Link::add(const rpc::Message& piece) {
  heard_ = Clock::now();
  const auto damaged = [&](const char* what) {
    throw Error(ErrorCode::data_loss, str("what came from ", name_, " is damaged: ", what));
  };
  PieceHead head;
  if (piece.size() < sizeof head) damaged("a piece without a head");
  piece.copy(0, &head, sizeof head);
  if (head.checksum != checksum_of(head, checks_bytes(*stream_) ? piece.checksum(sizeof head) : 0))
    damaged("its checksum is another one");
  const uint64_t count = piece.size() - sizeof head;
  if (head.kind == PieceKind::alive) return {};
  if (head.kind != PieceKind::first && head.kind != PieceKind::more) damaged("a piece of no kind");
  if ((head.kind == PieceKind::more) != is_arriving_) damaged("pieces that do not follow each other");
  if (head.kind == PieceKind::first) announced_ = head.size;
  if (head.size != announced_ || head.size > kMaxBytes || count > head.size - arriving_.size() ||
      count != std::min<uint64_t>(kPieceBytes, head.size - arriving_.size()))
    damaged("a piece of another size than announced");
  if (count == announced_) return whole(piece, count);
  const size_t begin = arriving_.size();
  arriving_.resize(begin + count);
  piece.copy(sizeof head, arriving_.data() + begin, count);
  is_arriving_ = arriving_.size() < announced_;
  if (is_arriving_) return {};
  return Incoming(std::exchange(arriving_, {}));
}

std::optional<Incoming> Link::take() {
  if (!stream_) throw_lost(cut_);
  while (true) {
    const auto end = stream_->end();
    const auto piece = stream_->take();
    if (!piece) {
      if (end) throw_lost(*end);
      return {};
    }
    if (auto message = add(*piece)) return message;
  }
}

Incoming Link::receive(Clock::time_point deadline) {
  const auto since = Clock::now();
  while (true) {
    if (auto message = take()) return *std::move(message);
    try {
      const auto piece = stream_->receive(std::min(deadline, std::max(since, heard_) + silence_));
      if (auto message = add(piece)) return *std::move(message);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::deadline_exceeded) {
        check_silence(since);
        if (Clock::now() >= deadline)
          throw Error(ErrorCode::deadline_exceeded, str(name_, " has not answered in time, though it is alive"));
        continue;
      }
      if (error.code() == ErrorCode::unavailable) throw_lost(error.what());
      throw;
    }
  }
}

void Link::check_silence(Clock::time_point since) const {
  if (Clock::now() >= std::max(since, heard_) + silence_)
    throw_lost(str("nothing has come from it for ", silence_.count(), " ms"));
}

}  // namespace tutti::servers
