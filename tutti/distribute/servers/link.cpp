#include "tutti/distribute/servers/link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::servers {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20, kMaxBytes = uint64_t{1} << 33;
static_assert(kPieceBytes < rpc::kMaxMessageBytes);

enum class PieceKind : uint32_t { alive, first, more };

// Before the bytes of each piece.
struct PieceHead {
  PieceKind kind;
  uint32_t checksum;  // CRC-32C of the bytes, then of this head with a checksum of 0
  uint64_t size;      // of the whole message, in bytes
};

uint32_t checksum_of(PieceHead head, uint32_t of_bytes) {
  head.checksum = 0;
  return crc32c(&head, sizeof head, of_bytes);
}

rpc::Outgoing piece_of(PieceKind kind, const std::shared_ptr<const Bytes>& message, uint64_t begin) {
  const uint64_t size = message ? message->size() : 0, count = std::min(kPieceBytes, size - begin);
  const auto* bytes = message ? reinterpret_cast<const std::byte*>(message->data() + begin) : nullptr;
  PieceHead head{.kind = kind, .checksum = 0, .size = size};
  head.checksum = checksum_of(head, crc32c(bytes, count));
  rpc::Outgoing piece;
  piece.head.resize(sizeof head);
  std::memcpy(piece.head.data(), &head, sizeof head);
  if (count > 0) piece.payload = {std::shared_ptr<const std::byte[]>(message, bytes), count};
  return piece;
}

}  // namespace

Link::Link(const cluster::Task& peer, std::unique_ptr<rpc::Stream> stream, std::chrono::milliseconds silence)
    : name_(to_string(peer)), silence_(silence), stream_(std::move(stream)) {}

void Link::on_event(std::function<void()> call) {
  const std::lock_guard lock(sending_);
  on_event_ = call;
  if (stream_) stream_->on_event(std::move(call));
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
    stream->on_event(on_event_);
    stream_ = std::move(stream);
  }
  arriving_.clear();
  is_arriving_ = is_whole_ = false;
  heard_ = renewed_ = Clock::now();
}

void Link::send(const std::shared_ptr<const Bytes>& message) {
  if (message->size() > kMaxBytes)
    throw Error(ErrorCode::resource_exhausted, str("a message of ", message->size(), " bytes to ", name_, "; at most ",
                                                   kMaxBytes, " travel together"));
  const std::lock_guard lock(sending_);
  if (!stream_) return;
  stream_->send(piece_of(PieceKind::first, message, 0));
  for (uint64_t begin = kPieceBytes; begin < message->size(); begin += kPieceBytes)
    stream_->send(piece_of(PieceKind::more, message, begin));
}

void Link::say_alive() {
  const std::lock_guard lock(sending_);
  if (stream_) stream_->send(piece_of(PieceKind::alive, nullptr, 0));
}

void Link::throw_lost(const std::string& why) const {
  throw Error(ErrorCode::unavailable, str(name_, " is lost: ", why));
}

void Link::add(const rpc::Message& piece) {
  heard_ = Clock::now();
  const auto damaged = [&](const char* what) {
    throw Error(ErrorCode::data_loss, str("what came from ", name_, " is damaged: ", what));
  };
  PieceHead head;
  if (piece.size() < sizeof head) damaged("a piece without a head");
  piece.copy(0, &head, sizeof head);
  if (head.checksum != checksum_of(head, piece.checksum(sizeof head))) damaged("its checksum is another one");
  const uint64_t count = piece.size() - sizeof head;
  if (head.kind == PieceKind::alive) return;
  if (head.kind != PieceKind::first && head.kind != PieceKind::more) damaged("a piece of no kind");
  if ((head.kind == PieceKind::more) != is_arriving_) damaged("pieces that do not follow each other");
  if (head.kind == PieceKind::first) announced_ = head.size;
  if (head.size != announced_ || head.size > kMaxBytes || count > head.size - arriving_.size() ||
      count != std::min<uint64_t>(kPieceBytes, head.size - arriving_.size()))
    damaged("a piece of another size than announced");
  const size_t begin = arriving_.size();
  arriving_.resize(begin + count);
  piece.copy(sizeof head, arriving_.data() + begin, count);
  is_arriving_ = arriving_.size() < announced_;
  is_whole_ = !is_arriving_;
}

std::optional<Bytes> Link::take() {
  if (!stream_) throw_lost(cut_);
  while (true) {
    const auto end = stream_->end();
    const auto piece = stream_->take();
    if (!piece) {
      if (end) throw_lost(*end);
      return {};
    }
    add(*piece);
    if (std::exchange(is_whole_, false)) return std::exchange(arriving_, {});
  }
}

Bytes Link::receive(Clock::time_point deadline) {
  const auto since = Clock::now();
  while (true) {
    if (auto message = take()) return *std::move(message);
    try {
      add(stream_->receive(std::min(deadline, std::max(since, heard_) + silence_)));
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
    if (std::exchange(is_whole_, false)) return std::exchange(arriving_, {});
  }
}

void Link::check_silence(Clock::time_point since) const {
  if (Clock::now() >= std::max(since, heard_) + silence_)
    throw_lost(str("nothing has come from it for ", silence_.count(), " ms"));
}

}  // namespace tutti::servers
