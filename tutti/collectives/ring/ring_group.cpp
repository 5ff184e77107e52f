#include "tutti/collectives/ring/ring_group.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tutti/collectives/local/reduce_kernel.h"
#include "tutti/collectives/ring/ring_peers.h"
#include "tutti/collectives/shared_memory/call_record.h"
#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;  // of one message
constexpr int64_t kSmallSumBytes = 32 << 10;

// Elements [begin, begin + length) of a buffer.
struct ElementRange {
  int64_t begin = 0, length = 0;
};

int64_t num_chunks(int64_t count, int64_t chunk) { return std::max<int64_t>(1, (count + chunk - 1) / chunk); }

// Bytes on their way to one peer or to many.
struct Sealed {
  rpc::Payload payload;
  uint32_t checksum = 0;
};

// What one call of a member does. In each round a member sends every other one a message, perhaps an empty one, and
// gets one of each. The messages of a round are on their way before those of the round before are waited for.
class RingCall {
 public:
  RingCall(RingPeers& peers, const Collective& call, std::vector<std::byte>& scratch)
      : peers_(peers),
        call_(call),
        scratch_(scratch),
        element_(static_cast<int64_t>(size_of(call.dtype))),
        count_(call.place == BufferPlace::nowhere ? 0 : call.count),
        chunk_(kChunkBytes / element_),
        messages_(static_cast<size_t>(peers.size())) {
    std::memset(&record_, 0, sizeof record_);
    write_record(record_, call);
  }

  void run() {
    switch (call_.kind) {
      case CollectiveKind::all_reduce: return count_ * element_ <= kSmallSumBytes ? sum_whole() : sum_in_parts();
      case CollectiveKind::reduce_scatter: return scatter_sums();
      case CollectiveKind::all_gather: return gather();
      case CollectiveKind::all_to_all: return exchange_parts();
      case CollectiveKind::broadcast: return broadcast();
      case CollectiveKind::send: return send();
      case CollectiveKind::receive: return receive();
      case CollectiveKind::barrier:
        return run_rounds(
            1, [](int64_t, int) { return Sealed(); }, [](int64_t) {});
    }
  }

 private:
  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * element_); }
  const std::byte* input(int64_t element) const { return static_cast<const std::byte*>(call_.input) + bytes(element); }
  std::byte* output(int64_t element) const { return static_cast<std::byte*>(call_.output) + bytes(element); }
  ElementRange chunk_of(int64_t round, int64_t begin, int64_t end) const {
    const int64_t first = std::min(end, begin + round * chunk_);
    return {first, std::min(chunk_, end - first)};
  }
  ElementRange chunk(int64_t round) const { return chunk_of(round, 0, count_); }
  // Of the part of a sum that a member takes.
  ElementRange share(int64_t round, int member) const {
    return chunk_of(round, count_ * member / size(), count_ * (member + 1) / size());
  }

  template <class Do>
  void for_each_peer(Do act) {
    for (int step = 1; step < size(); ++step) act((rank() + step) % size());  // not all to the same one at once
  }
  Sealed seal(const std::byte* from, int64_t elements) const;
  template <class Send>
  void send_round(int64_t round, Send what);
  void receive_round(int64_t round);
  template <class Send, class Take>
  void run_rounds(int64_t rounds, Send what, Take take);
  void check_all() const;
  void check_pair(const RingMessage& message) const;
  void copy_from(int peer, std::byte* to, int64_t elements);
  void take_parts(int64_t round);
  void take_own(int64_t to, int64_t from, int64_t elements) const;
  const std::byte* sum(const std::byte* own, int64_t elements);

  void sum_whole();
  void sum_in_parts();
  void scatter_sums();
  void gather();
  void exchange_parts();
  void broadcast();
  void send();
  void receive();

  RingPeers& peers_;
  const Collective& call_;
  std::vector<std::byte>& scratch_;        // kept from call to call
  const int64_t element_, count_, chunk_;  // bytes; elements that move of each part; elements
  CallRecord record_;
  std::vector<std::optional<RingMessage>> messages_;  // of a round, by rank
};

Sealed RingCall::seal(const std::byte* from, int64_t elements) const {
  if (elements == 0) return {};
  const size_t size = bytes(elements);
  const auto copy = std::make_shared_for_overwrite<std::byte[]>(size);
  std::memcpy(copy.get(), from, size);
  return {{copy, size}, crc32c(copy.get(), size)};
}

template <class Send>
void RingCall::send_round(int64_t round, Send what) {
  for_each_peer([&](int peer) {
    const Sealed sealed = what(round, peer);
    peers_.send(peer, round == 0 ? &record_ : nullptr, sealed.payload, sealed.checksum);
  });
}

void RingCall::receive_round(int64_t round) {
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank()) messages_[static_cast<size_t>(peer)] = peers_.receive(peer);
  if (round == 0) check_all();
}

template <class Send, class Take>
void RingCall::run_rounds(int64_t rounds, Send what, Take take) {
  send_round(0, what);
  for (int64_t round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) send_round(round + 1, what);
    receive_round(round);
    take(round);
  }
}

// All members come to the same verdict, each for itself.
void RingCall::check_all() const {
  const auto record_of = [&](int member) -> const CallRecord* {
    if (member == rank()) return &record_;
    const auto& call = messages_[static_cast<size_t>(member)]->call();
    return call ? &*call : nullptr;
  };
  const CallRecord* first = record_of(0);
  for (int member = 0; member < size(); ++member) {
    const CallRecord* record = record_of(member);
    if (first && record && agree(*first, *record)) continue;
    if (!first || !record) {
      peers_.fail(Error(ErrorCode::data_loss, str("rank ", first ? member : 0, " has sent bytes of no call to rank ",
                                                  rank(), ", which is at ", to_string(call_))));
    } else {
      peers_.fail(Error(ErrorCode::failed_precondition,
                        str("the members of a group must make the same calls in the same order; rank 0 makes ",
                            to_string(*first), ", rank ", member, " makes ", to_string(*record))));
    }
    peers_.throw_failure(call_.where);
  }
}

void RingCall::copy_from(int peer, std::byte* to, int64_t elements) {
  try {
    messages_[static_cast<size_t>(peer)]->copy(to, bytes(elements));
  } catch (const Error& error) {
    peers_.fail(
        Error(error.code(), str("rank ", peer, " to rank ", rank(), ", ", to_string(call_), ": ", error.what())));
    peers_.throw_failure(call_.where);
  }
}

// Each peer's part, at the peer's place.
void RingCall::take_parts(int64_t round) {
  const ElementRange part = chunk(round);
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank()) copy_from(peer, output(peer * count_ + part.begin), part.length);
}

// This member's own elements.
void RingCall::take_own(int64_t to, int64_t from, int64_t elements) const {
  if (elements > 0 && output(to) != input(from)) std::memmove(output(to), input(from), bytes(elements));
}

// The sum of what came in this round and of this member's own elements, in rank order, until the next one is taken.
const std::byte* RingCall::sum(const std::byte* own, int64_t elements) {
  if (elements == 0) return scratch_.data();
  const size_t part = (bytes(elements) + 63) / 64 * 64;
  if (scratch_.size() < part * static_cast<size_t>(size())) scratch_.resize(part * static_cast<size_t>(size()));
  std::vector<const void*> inputs;
  void* result = scratch_.data() + part * static_cast<size_t>(rank());  // where nothing came to
  for (int member = 0; member < size(); ++member) {
    std::byte* place = scratch_.data() + part * static_cast<size_t>(member);
    if (member != rank()) copy_from(member, place, elements);
    inputs.push_back(member == rank() ? own : place);
  }
  const ReductionItem item{
      .dtype = call_.dtype, .inputs = inputs, .outputs = {&result, 1}, .count = elements, .divisor = call_.divisor};
  reduce_kernel(item.dtype)(item, 0, bytes(elements));
  return static_cast<const std::byte*>(result);
}

void RingCall::sum_whole() {
  const Sealed all = seal(input(0), count_);
  run_rounds(
      1, [&](int64_t, int) { return all; },
      [&](int64_t) {
        const std::byte* result = sum(input(0), count_);
        if (count_ > 0) std::memcpy(output(0), result, bytes(count_));
      });
}

void RingCall::sum_in_parts() {
  const int64_t rounds = num_chunks((count_ + size() - 1) / size(), chunk_);
  const auto terms = [&](int64_t round, int peer) {
    const ElementRange part = share(round, peer);
    return seal(input(part.begin), part.length);
  };
  const auto take_results = [&](int64_t round) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      messages_[static_cast<size_t>(peer)] = peers_.receive(peer);
      const ElementRange part = share(round, peer);
      copy_from(peer, output(part.begin), part.length);
    }
  };
  run_rounds(rounds, terms, [&](int64_t round) {
    const ElementRange own = share(round, rank());
    const Sealed result = seal(sum(input(own.begin), own.length), own.length);
    for_each_peer([&](int peer) { peers_.send(peer, nullptr, result.payload, result.checksum); });
    if (own.length > 0) std::memcpy(output(own.begin), result.payload.bytes.get(), bytes(own.length));
    if (round > 0) take_results(round - 1);
  });
  take_results(rounds - 1);
}

void RingCall::scatter_sums() {
  run_rounds(
      num_chunks(count_, chunk_),
      [&](int64_t round, int peer) {
        const ElementRange part = chunk(round);
        return seal(input(peer * count_ + part.begin), part.length);
      },
      [&](int64_t round) {
        const ElementRange part = chunk(round);
        const std::byte* result = sum(input(rank() * count_ + part.begin), part.length);
        if (part.length > 0) std::memcpy(output(part.begin), result, bytes(part.length));
      });
}

void RingCall::gather() {
  Sealed own;
  int64_t sealed = -1;
  run_rounds(
      num_chunks(count_, chunk_),
      [&](int64_t round, int) {
        const ElementRange part = chunk(round);
        if (std::exchange(sealed, round) != round) own = seal(input(part.begin), part.length);
        return own;
      },
      [&](int64_t round) { take_parts(round); });
  take_own(rank() * count_, 0, count_);
}

void RingCall::exchange_parts() {
  run_rounds(
      num_chunks(count_, chunk_),
      [&](int64_t round, int peer) {
        const ElementRange part = chunk(round);
        return seal(input(peer * count_ + part.begin), part.length);
      },
      [&](int64_t round) { take_parts(round); });
  take_own(rank() * count_, rank() * count_, count_);
}

// All members compare the call; after that, others answer the one that has the value and nobody else.
void RingCall::broadcast() {
  const int root = call_.peer;
  const int64_t rounds = num_chunks(count_, chunk_);
  const auto send_chunk = [&](int64_t round) {
    const ElementRange part = chunk(round);
    const Sealed value = rank() == root ? seal(input(part.begin), part.length) : Sealed();
    for_each_peer([&](int peer) {
      if (round == 0 || rank() == root || peer == root)
        peers_.send(peer, round == 0 ? &record_ : nullptr, value.payload, value.checksum);
    });
  };
  send_chunk(0);
  for (int64_t round = 0; round < rounds; ++round) {
    if (round + 1 < rounds) send_chunk(round + 1);
    for_each_peer([&](int peer) {
      if (round == 0 || rank() == root || peer == root) messages_[static_cast<size_t>(peer)] = peers_.receive(peer);
    });
    if (round == 0) check_all();
    const ElementRange part = chunk(round);
    if (rank() != root) copy_from(root, output(part.begin), part.length);
  }
  if (rank() == root) take_own(0, 0, count_);
}

void RingCall::check_pair(const RingMessage& message) const {
  const bool sends = call_.kind == CollectiveKind::send;
  const CallRecord* other = message.call() ? &*message.call() : nullptr;
  const CallRecord &from = sends || !other ? record_ : *other, &to = sends && other ? *other : record_;
  const bool is_pair = other && from.kind == CollectiveKind::send && to.kind == CollectiveKind::receive;
  if (is_pair && agree_as_pair(from, to)) return;
  const int sender = sends ? rank() : call_.peer, receiver = sends ? call_.peer : rank();
  peers_.fail(Error(ErrorCode::failed_precondition, str("rank ", sender, " makes ", to_string(from), ", but rank ",
                                                        receiver, " makes ", to_string(to))));
  peers_.throw_failure(call_.where);
}

// The receiver's own message about the call is its answer to the first chunk; each further one has an answer.
void RingCall::send() {
  const int64_t rounds = num_chunks(count_, chunk_);
  for (int64_t round = 0; round <= rounds; ++round) {
    if (round < rounds) {
      const ElementRange part = chunk(round);
      const Sealed sealed = seal(input(part.begin), part.length);
      peers_.send(call_.peer, round == 0 ? &record_ : nullptr, sealed.payload, sealed.checksum);
    }
    if (round == 0) continue;
    const RingMessage answer = peers_.receive(call_.peer);
    if (round == 1) check_pair(answer);
  }
}

void RingCall::receive() {
  const int64_t rounds = num_chunks(count_, chunk_);
  for (int64_t round = 0; round < rounds; ++round) {
    if (round == 0) peers_.send(call_.peer, &record_, {}, 0);
    messages_[static_cast<size_t>(call_.peer)] = peers_.receive(call_.peer);
    if (round == 0) check_pair(*messages_[static_cast<size_t>(call_.peer)]);
    const ElementRange part = chunk(round);
    copy_from(call_.peer, output(part.begin), part.length);
    if (round > 0) peers_.send(call_.peer, nullptr, {}, 0);
  }
}

class RingGroup final : public Group {
 public:
  RingGroup(int rank, std::vector<std::unique_ptr<rpc::Stream>> peers, const RingGroupOptions& options,
            std::unique_ptr<RingCarrier> carrier)
      : Group(rank, static_cast<int>(peers.size())),
        peers_(rank, std::move(peers), options.timeout, std::move(carrier)) {}

  void abort(const std::string& cause) override {
    peers_.fail(Error(ErrorCode::cancelled, str("rank ", rank(), " has given up: ", cause)));
  }
  std::optional<Error> obstacle_to(const Collective& call) override { return peers_.obstacle_to(call); }

 protected:
  void execute(const Collective& call) override {
    peers_.begin(call);
    RingCall(peers_, call, scratch_).run();
    peers_.end();
  }

 private:
  RingPeers peers_;
  std::vector<std::byte> scratch_;
};

}  // namespace

std::unique_ptr<Group> ring_group(int rank, std::vector<std::unique_ptr<rpc::Stream>> peers,
                                  const RingGroupOptions& options, std::unique_ptr<RingCarrier> carrier) {
  bool fits = rank >= 0 && rank < static_cast<int>(peers.size());
  for (size_t i = 0; fits && i < peers.size(); ++i) fits = (peers[i] == nullptr) == (static_cast<int>(i) == rank);
  if (!fits)
    throw Error(ErrorCode::invalid_argument,
                str("rank ", rank, " of ", peers.size(), " needs a stream to every other one"));
  return std::make_unique<RingGroup>(rank, std::move(peers), options, std::move(carrier));
}

}  // namespace tutti
