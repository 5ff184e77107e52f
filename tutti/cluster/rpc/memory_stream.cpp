#include "tutti/cluster/rpc/memory_stream.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/core/error.h"

namespace tutti::rpc {
namespace {

constexpr uint64_t kRingBytes = SharedMemory::kRingBytes;
constexpr uint64_t kNothingMore = ~uint64_t{0};  // in the place of a message's size
constexpr uint64_t kAlignment = 8;               // of a message and its size, so that numbers can be read there
// Of a message that stays in the ring until who takes it lets it go; others are copied.
constexpr uint64_t kLeastInPlace = uint64_t{4} << 10, kMostInPlace = kRingBytes / 2;
constexpr const char* kClosed = "the other side has closed the connection";
using Clock = std::chrono::steady_clock;

[[noreturn]] void throw_damaged(const char* what) {
  throw Error(ErrorCode::data_loss, std::string("the shared memory of the connection is damaged: ") + what);
}

uint64_t padding(uint64_t size) { return (kAlignment - size % kAlignment) % kAlignment; }

// The ring that this end writes: each message behind its size. A long one lies at the start whenever the ring is empty,
// so that messages which come one by one use the same memory, in the caches of both ends. One thread at a time.
class RingWriter {
 public:
  explicit RingWriter(SharedMemory::Ring ring) : ring_(ring) {}

  void begin(uint64_t size, const Outgoing& message) {
    message_ = message;
    size_ = size;
    if (size >= kLeastInPlace && ring_.tail.load(std::memory_order_seq_cst) == head_) {
      origin_ = head_;
      ring_.origin.store(origin_, std::memory_order_relaxed);  // before the head, which tells of the message
    }
    begin_ = head_;
    is_writing_ = true;
  }
  bool is_writing() const { return is_writing_; }
  void keep() { message_.keep(); }
  // Writes what there is room for; is_writing() tells whether some is left. Returns whether there was room. Throws:
  // data_loss.
  bool write_on() {
    const uint64_t before = head_;
    put_next();
    if (is_writing_) {
      ring_.waits_for_room.store(1, std::memory_order_seq_cst);
      put_next();  // what was read meanwhile
    }
    return head_ != before;
  }

 private:
  void put_next() {
    static constexpr std::byte kPadding[kAlignment] = {};
    const uint64_t used = head_ - ring_.tail.load(std::memory_order_seq_cst);
    if (used > kRingBytes) throw_damaged("more was read than was written");
    room_ = kRingBytes - used;
    uint64_t begin = begin_;
    begin = put(begin, reinterpret_cast<const std::byte*>(&size_), sizeof size_);
    begin = put(begin, reinterpret_cast<const std::byte*>(message_.head.data()), message_.head.size());
    begin = put(begin, message_.payload.bytes.get(), message_.payload.size);
    for (const Payload& each : message_.more) begin = put(begin, each.bytes.get(), each.size);
    begin = put(begin, kPadding, padding(message_.size()));
    ring_.head.store(head_, std::memory_order_seq_cst);
    if (head_ != begin) return;
    is_writing_ = false;
    message_ = {};
  }
  // What has not been written of the bytes whose place begins there. Returns where they end.
  uint64_t put(uint64_t begin, const std::byte* bytes, uint64_t size) {
    const uint64_t written = std::min(head_ - begin, size), count = std::min(size - written, room_);
    if (begin + written == head_ && count > 0) {
      std::memcpy(place(head_), bytes + written, count);
      head_ += count;
      room_ -= count;
    }
    return begin + size;
  }
  std::byte* place(uint64_t position) const { return ring_.bytes + (position - origin_) % kRingBytes; }

  const SharedMemory::Ring ring_;
  Outgoing message_;
  uint64_t size_ = 0, begin_ = 0, head_ = 0, room_ = 0;
  uint64_t origin_ = 0;  // what lies at the start
  bool is_writing_ = false;
};

// What the reader of a ring has passed, and has not given back to the writer yet, since messages in it are in use. Any
// thread.
class PassedPart : public std::enable_shared_from_this<PassedPart> {
 public:
  // `writer`: the bell of the end that writes the ring.
  PassedPart(std::shared_ptr<SharedMemory> memory, SharedMemory::Ring ring, Bell& writer)
      : memory_(std::move(memory)), ring_(ring), writer_(writer) {}

  // The next bytes, up to a position, are passed, and free.
  void pass(uint64_t end) {
    const std::lock_guard lock(mutex_);
    pieces_.push_back({.end = end, .is_free = true});
    give_back();
  }
  // They are free once nobody has what this returns.
  std::shared_ptr<const void> pass_in_use(uint64_t end) {
    {
      const std::lock_guard lock(mutex_);
      pieces_.push_back({.end = end, .is_free = false});
    }
    return {ring_.bytes, [self = shared_from_this(), end](const void*) { self->free(end); }};
  }

 private:
  struct Piece {
    uint64_t end;
    bool is_free;
  };

  void free(uint64_t end) {
    const std::lock_guard lock(mutex_);
    std::ranges::find(pieces_, end, &Piece::end)->is_free = true;
    give_back();
  }
  // With the lock.
  void give_back() {
    uint64_t tail = 0;
    for (; !pieces_.empty() && pieces_.front().is_free; pieces_.pop_front()) tail = pieces_.front().end;
    if (tail == 0) return;
    ring_.tail.store(tail, std::memory_order_seq_cst);
    if (ring_.waits_for_room.load(std::memory_order_seq_cst) == 0) return;
    ring_.waits_for_room.store(0, std::memory_order_seq_cst);
    rpc::ring(writer_, kRoom);
  }

  const std::shared_ptr<SharedMemory> memory_;
  const SharedMemory::Ring ring_;
  Bell& writer_;
  std::mutex mutex_;
  std::deque<Piece> pieces_;
};

// The ring that this end reads. For one thread.
class RingReader {
 public:
  RingReader(SharedMemory::Ring ring, std::shared_ptr<PassedPart> passed) : ring_(ring), passed_(std::move(passed)) {}

  bool has_ended() const { return has_ended_; }  // by word of the other end
  // The next message that is whole. Throws: data_loss.
  std::optional<Message> take() {
    while (!has_ended_) {
      const uint64_t available = ring_.head.load(std::memory_order_acquire) - next_;
      if (available > kRingBytes) throw_damaged("it holds more than it can");
      if (!has_size_ && available < sizeof size_) return {};
      if (!has_size_) {
        read_size();
      } else if (bytes_) {
        const uint64_t count = std::min(available, size_ + padding(size_) - filled_);
        read(count);
        if (filled_ == size_ + padding(size_)) return copied();
        if (count == 0) return {};
      } else {
        const uint64_t end = next_ + size_ + padding(size_);
        if (available < end - next_) return {};
        const Message::Piece piece(place(next_), size_);
        next_ = end;
        has_size_ = false;
        return Message(passed_->pass_in_use(end), {piece});
      }
    }
    return {};
  }

 private:
  void read_size() {
    if (ring_.origin.load(std::memory_order_relaxed) == next_) origin_ = next_;
    std::memcpy(&size_, place(next_), sizeof size_);
    next_ += sizeof size_;
    has_ended_ = size_ == kNothingMore;
    if (has_ended_) return;
    if (size_ > kMaxMessageBytes) throw_damaged("a message is longer than one can be");
    has_size_ = true;
    if (size_ >= kLeastInPlace && size_ <= kMostInPlace) return;
    passed_->pass(next_);
    bytes_ = std::make_shared_for_overwrite<std::byte[]>(size_ + padding(size_));
    filled_ = 0;
  }
  void read(uint64_t count) {
    if (count == 0) return;
    std::memcpy(bytes_.get() + filled_, place(next_), count);
    next_ += count;
    filled_ += count;
    passed_->pass(next_);
  }
  Message copied() {
    has_size_ = false;
    const Message::Piece piece(bytes_.get(), size_);
    return Message(std::exchange(bytes_, nullptr), {piece});
  }
  std::byte* place(uint64_t position) const { return ring_.bytes + (position - origin_) % kRingBytes; }

  const SharedMemory::Ring ring_;
  const std::shared_ptr<PassedPart> passed_;
  std::shared_ptr<std::byte[]> bytes_;  // of a message that is copied as it comes
  uint64_t size_ = 0, filled_ = 0, next_ = 0;
  uint64_t origin_ = 0;  // what lies at the start
  bool has_size_ = false, has_ended_ = false;
};

// Who waits for messages reads them, or where somebody listens for events, a thread. That writes what has found no room
// at once, and finds out about the end.
class MemoryWire final : public Wire, public Source {
 public:
  MemoryWire(std::unique_ptr<Stream> connection, std::unique_ptr<SharedMemory> memory, int end,
             std::shared_ptr<StreamState> state)
      : memory_(std::move(memory)),  // which messages that came may outlive
        own_(memory_->bell(end)),
        other_(memory_->bell(1 - end)),
        writer_(memory_->ring_from(end)),
        reader_(memory_->ring_from(1 - end),
                std::make_shared<PassedPart>(memory_, memory_->ring_from(1 - end), other_)),
        state_(std::move(state)),
        connection_(std::move(connection)) {
    memory_->close_file();
    connection_->on_event([this] { look(); });
    state_->attach(this);
    thread_ = std::thread([this] { run(); });
  }
  // Once the stream is cancelled, or has ended.
  ~MemoryWire() override { thread_.join(); }

  void read() override {
    is_paused_ = false;
    look();
  }
  bool write(const Outgoing& message) override {
    const std::lock_guard lock(writing_);
    writer_.begin(message.size(), message);
    if (write_on(kMessages)) return true;
    writer_.keep();
    look();  // so that the thread waits for room
    return false;
  }
  void finish() override {
    const std::lock_guard lock(writing_);
    writer_.begin(kNothingMore, {});
    is_finishing_ = true;
    write_on(kAnything);  // the other end's thread answers it
    look();
  }
  void cancel() override {
    is_cancelled_ = true;
    look();
  }

  void bring() override {
    try {
      read_on();
    } catch (const Error&) {
      look();  // the thread finds it again
    }
  }
  void wait(Clock::time_point deadline) override {
    const uint32_t seen = own_.count.load(std::memory_order_seq_cst);
    bring();
    if (!state_->has_news()) wait_past(own_, seen, kMessages, deadline);
    bring();
  }
  void look() override { ring(own_, kAnything); }
  Bell& bell() override { return own_; }

 private:
  // With the lock. Returns whether nothing is left to be written. Damage is the thread's to find.
  bool write_on(uint32_t reason) {
    try {
      if (writer_.write_on()) ring(other_, reason);
    } catch (const Error&) {
      look();
    }
    return !writer_.is_writing();
  }

  void run() {
    std::string why;
    try {
      why = carry();
    } catch (const Error& error) {
      why = error.what();
    }
    connection_.reset();  // the other end, too, shall know
    state_->detach();
    state_->ended(why);
    look();
  }

  // Returns why it ends.
  std::string carry() {
    while (!is_cancelled_) {
      const uint32_t seen = own_.count.load(std::memory_order_seq_cst);
      const auto end = connection_->has_message() ? "the connection carries what it must not" : connection_->end();
      const bool has_read = read_on(), has_written = go_on_writing();
      if (has_other_ended() && has_said_all()) return kClosed;
      if (has_read) ring(own_, kMessages);  // who waits may not have seen it come
      if (has_read || has_written) continue;
      if (end && !is_paused_) return *end;
      wait_past(own_, seen, state_->has_listener() ? kAnything : ~kMessages, Clock::time_point::max());
    }
    return "the connection is cut off here";
  }
  // Throws: data_loss, from the first time on.
  bool read_on() {
    const std::lock_guard lock(reading_);
    if (damage_) throw Error(*damage_);
    bool has_read = false;
    try {
      while (!is_paused_ && !is_cancelled_) {
        auto message = reader_.take();
        if (!message) break;
        has_read = true;
        is_paused_ = true;  // until the stream says else, which it may do from within
        if (state_->arrived(*std::move(message))) is_paused_ = false;
      }
    } catch (const Error& error) {
      damage_ = error;
      throw;
    }
    if (reader_.has_ended() && !std::exchange(knows_of_end_, true)) state_->other_finished();
    return has_read;
  }
  bool go_on_writing() {
    {
      const std::lock_guard lock(writing_);
      if (!writer_.is_writing()) return false;
      const bool has_written = writer_.write_on();
      if (has_written) ring(other_, is_finishing_ ? kAnything : kMessages);
      if (writer_.is_writing() || is_finishing_) return has_written;
    }
    state_->written(true);
    return true;
  }
  bool has_said_all() {
    const std::lock_guard lock(writing_);
    return is_finishing_ && !writer_.is_writing();
  }
  bool has_other_ended() {
    const std::lock_guard lock(reading_);
    return reader_.has_ended();
  }

  const std::shared_ptr<SharedMemory> memory_;
  Bell &own_, &other_;
  std::mutex writing_;  // guards the next two
  RingWriter writer_;
  bool is_finishing_ = false;
  std::mutex reading_;  // guards the next three
  RingReader reader_;
  bool knows_of_end_ = false;
  std::optional<Error> damage_;
  std::atomic<bool> is_paused_ = false, is_cancelled_ = false;
  const std::shared_ptr<StreamState> state_;
  std::unique_ptr<Stream> connection_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Stream> share_memory(std::unique_ptr<Stream> connection, std::unique_ptr<SharedMemory> memory,
                                     int end) {
  auto state = std::make_shared<StreamState>();
  auto wire = std::make_shared<MemoryWire>(std::move(connection), std::move(memory), end, state);
  return std::make_unique<Stream>(std::move(state), std::move(wire), Carriage::shared_memory);
}

}  // namespace tutti::rpc
