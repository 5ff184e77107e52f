#include "tutti/cluster/rpc/memory_stream.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/core/error.h"

namespace tutti::rpc {
namespace {

constexpr uint64_t kRingBytes = SharedMemory::kRingBytes;
constexpr uint64_t kNothingMore = ~uint64_t{0};  // in the place of a message's size
constexpr const char* kClosed = "the other side has closed the connection";
constexpr int kPauses = 64;  // before a thread sleeps: it may need the other one's core
constexpr timespec kLongestSleep{.tv_sec = 0, .tv_nsec = 100'000'000};

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void wake(SharedMemory::Bell& bell) { syscall(SYS_futex, &bell.count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

// No ring is lost: who sleeps says so before the kernel compares the count, which has moved before that is looked at.
void ring(SharedMemory::Bell& bell) {
  bell.count.fetch_add(1, std::memory_order_seq_cst);
  if (bell.is_sleeping.load(std::memory_order_seq_cst) != 0) wake(bell);
}

// The other process may write anything there: nobody sleeps for long.
void wait_past(SharedMemory::Bell& bell, uint32_t seen) {
  for (int i = 0; i < kPauses; ++i) {
    if (bell.count.load(std::memory_order_acquire) != seen) return;
    pause_core();
  }
  bell.is_sleeping.store(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &bell.count, FUTEX_WAIT, seen, &kLongestSleep, nullptr, 0);
  bell.is_sleeping.store(0, std::memory_order_relaxed);
}

void copy_into(SharedMemory::Ring& ring, uint64_t position, const std::byte* from, uint64_t count) {
  const uint64_t at = position % kRingBytes, first = std::min(count, kRingBytes - at);
  std::memcpy(ring.bytes + at, from, first);
  if (count > first) std::memcpy(ring.bytes, from + first, count - first);
}

void copy_from(const SharedMemory::Ring& ring, uint64_t position, std::byte* to, uint64_t count) {
  const uint64_t at = position % kRingBytes, first = std::min(count, kRingBytes - at);
  std::memcpy(to, ring.bytes + at, first);
  if (count > first) std::memcpy(to + first, ring.bytes, count - first);
}

[[noreturn]] void throw_damaged(const char* what) {
  throw Error(ErrorCode::data_loss, std::string("the shared memory of the connection is damaged: ") + what);
}

// The ring that this end writes: each message behind its size. One thread at a time.
class RingWriter {
 public:
  explicit RingWriter(SharedMemory::Ring& ring) : ring_(ring) {}

  void begin(uint64_t size, const Outgoing& message) {
    message_ = message;
    size_ = size;
    begin_ = head_;
    is_writing_ = true;
  }
  bool is_writing() const { return is_writing_; }
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
    const uint64_t used = head_ - ring_.tail.load(std::memory_order_seq_cst);
    if (used > kRingBytes) throw_damaged("more was read than was written");
    room_ = kRingBytes - used;
    uint64_t begin = begin_;
    begin = put(begin, reinterpret_cast<const std::byte*>(&size_), sizeof size_);
    begin = put(begin, reinterpret_cast<const std::byte*>(message_.head.data()), message_.head.size());
    begin = put(begin, message_.payload.bytes.get(), message_.payload.size);
    ring_.head.store(head_, std::memory_order_seq_cst);
    if (head_ != begin) return;
    is_writing_ = false;
    message_ = {};
  }
  // What has not been written of the bytes whose place begins there. Returns where they end.
  uint64_t put(uint64_t begin, const std::byte* bytes, uint64_t size) {
    const uint64_t written = std::min(head_ - begin, size), count = std::min(size - written, room_);
    if (begin + written == head_ && count > 0) {
      copy_into(ring_, head_, bytes + written, count);
      head_ += count;
      room_ -= count;
    }
    return begin + size;
  }

  SharedMemory::Ring& ring_;
  Outgoing message_;
  uint64_t size_ = 0, begin_ = 0, head_ = 0, room_ = 0;
  bool is_writing_ = false;
};

// The ring that this end reads. For one thread.
class RingReader {
 public:
  explicit RingReader(SharedMemory::Ring& ring) : ring_(ring) {}

  bool has_ended() const { return has_ended_; }  // by word of the other end
  // The next message that is whole. Throws: data_loss.
  std::optional<Message> take() {
    while (!has_ended_) {
      const uint64_t available = ring_.head.load(std::memory_order_acquire) - tail_;
      if (available > kRingBytes) throw_damaged("it holds more than it can");
      if (!bytes_) {
        if (available < sizeof size_) return {};
        read(reinterpret_cast<std::byte*>(&size_), sizeof size_);
        has_ended_ = size_ == kNothingMore;
        if (has_ended_) return {};
        if (size_ > kMaxMessageBytes) throw_damaged("a message is longer than one can be");
        bytes_ = std::make_shared_for_overwrite<std::byte[]>(size_);
        filled_ = 0;
        continue;
      }
      const uint64_t count = std::min(available, size_ - filled_);
      read(bytes_.get() + filled_, count);
      filled_ += count;
      if (filled_ == size_) {
        const Message::Piece piece(bytes_.get(), size_);
        return Message(std::exchange(bytes_, nullptr), {piece});
      }
      if (count == 0) return {};
    }
    return {};
  }
  // Whether somebody waits for what was read.
  bool has_made_room() { return std::exchange(has_read_, false) && ring_.waits_for_room.exchange(0) != 0; }

 private:
  void read(std::byte* to, uint64_t count) {
    if (count == 0) return;
    copy_from(ring_, tail_, to, count);
    tail_ += count;
    ring_.tail.store(tail_, std::memory_order_seq_cst);
    has_read_ = true;
  }

  SharedMemory::Ring& ring_;
  std::shared_ptr<std::byte[]> bytes_;  // of the message that is arriving
  uint64_t size_ = 0, filled_ = 0, tail_ = 0;
  bool has_ended_ = false, has_read_ = false;
};

// A thread reads, and writes what has found no room at once.
class MemoryWire final : public Wire {
 public:
  MemoryWire(std::unique_ptr<Stream> connection, std::unique_ptr<SharedMemory> memory, int end,
             std::shared_ptr<StreamState> state)
      : memory_(std::move(memory)),
        own_(memory_->bell(end)),
        other_(memory_->bell(1 - end)),
        writer_(memory_->ring_from(end)),
        reader_(memory_->ring_from(1 - end)),
        state_(std::move(state)),
        connection_(std::move(connection)) {
    memory_->close_file();
    connection_->on_event([this] { wake_self(); });
    state_->attach(this);
    thread_ = std::thread([this] { run(); });
  }
  // Once the stream is cancelled, or has ended.
  ~MemoryWire() { thread_.join(); }

  void read() override {
    is_paused_ = false;
    wake_self();
  }
  bool write(const Outgoing& message) override {
    const std::lock_guard lock(writing_);
    writer_.begin(message.head.size() + message.payload.size, message);
    return write_on();
  }
  void finish() override {
    const std::lock_guard lock(writing_);
    writer_.begin(kNothingMore, {});
    is_finishing_ = true;
    write_on();
    wake_self();
  }
  void cancel() override {
    is_cancelled_ = true;
    wake_self();
  }

 private:
  void wake_self() {
    own_.count.fetch_add(1, std::memory_order_seq_cst);
    wake(own_);
  }
  // With the lock. Returns whether nothing is left to be written. Damage is the thread's to find.
  bool write_on() {
    try {
      if (writer_.write_on()) ring(other_);
    } catch (const Error&) {
      wake_self();
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
  }

  // Returns why it ends.
  std::string carry() {
    while (!is_cancelled_) {
      const uint32_t seen = own_.count.load(std::memory_order_seq_cst);
      const auto end = connection_->has_message() ? "the connection carries what it must not" : connection_->end();
      const bool has_read = read_on(), has_written = go_on_writing();
      if (reader_.has_ended() && has_said_all()) return kClosed;
      if (has_read || has_written) continue;
      if (end && !is_paused_) return *end;
      wait_past(own_, seen);
    }
    return "the connection is cut off here";
  }
  bool read_on() {
    bool has_read = false;
    while (!is_paused_ && !is_cancelled_) {
      auto message = reader_.take();
      if (reader_.has_made_room()) ring(other_);
      if (!message) break;
      has_read = true;
      is_paused_ = true;  // until the stream says else, which it may do from within
      if (state_->arrived(*std::move(message))) is_paused_ = false;
    }
    if (reader_.has_ended() && !std::exchange(knows_of_end_, true)) state_->other_finished();
    return has_read;
  }
  bool go_on_writing() {
    {
      const std::lock_guard lock(writing_);
      if (!writer_.is_writing()) return false;
      const bool has_written = writer_.write_on();
      if (has_written) ring(other_);
      if (writer_.is_writing() || is_finishing_) return has_written;
    }
    state_->written(true);
    return true;
  }
  bool has_said_all() {
    const std::lock_guard lock(writing_);
    return is_finishing_ && !writer_.is_writing();
  }

  const std::unique_ptr<SharedMemory> memory_;
  SharedMemory::Bell &own_, &other_;
  std::mutex writing_;  // guards the next two
  RingWriter writer_;
  bool is_finishing_ = false;
  RingReader reader_;          // the thread's own
  bool knows_of_end_ = false;  // likewise
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
  return std::make_unique<Stream>(std::move(state), std::move(wire));
}

}  // namespace tutti::rpc
