#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tutti/cluster/rpc/stream.h"
#include "tutti/collectives/collective.h"
#include "tutti/collectives/ring/ring_carrier.h"
#include "tutti/collectives/ring/ring_message.h"
#include "tutti/device/epoch.h"

namespace tutti {

// The other members of a ring group as one of them meets them. All waiting is here; each wait ends when a message of
// that member has come, at a failure of anybody, when the member is lost, or when it has been waited for too long. The
// first failure is everybody's.
class RingPeers {
 public:
  using Clock = std::chrono::steady_clock;

  // Without a carrier the streams carry everything.
  RingPeers(int rank, std::vector<std::unique_ptr<rpc::Stream>> streams, std::chrono::milliseconds timeout,
            std::unique_ptr<RingCarrier> carrier = nullptr);
  ~RingPeers();  // says goodbye, and gives what was sent a second to arrive
  RingPeers(const RingPeers&) = delete;
  RingPeers& operator=(const RingPeers&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }

  // Begins a call. Throws: the failure of an earlier one.
  void begin(const Collective& call);
  void send(int peer, const CallRecord* first, const rpc::Payload& payload, uint32_t checksum);
  // The next message of the call. Throws: the group's failure.
  RingMessage receive(int peer);
  // Ends a call: what this member sent is out of its hands, and others need not wait until it comes here again.
  void end();

  // What is known to keep a call from ending.
  std::optional<Error> obstacle_to(const Collective& call);

  // Any thread.
  void fail(const Error& error);
  [[noreturn]] void throw_failure(const std::source_location& where);

 private:
  struct Peer {
    std::unique_ptr<rpc::Stream> stream;
    uint64_t num_sent = 0, num_taken = 0;  // messages of calls
    std::deque<RingMessage> inbox = {};
    std::optional<CallRecord> came_to = {};    // what it said of this call
    std::optional<uint64_t> left_behind = {};  // it has left, behind this message
  };

  Peer& peer(int index) { return peers_[static_cast<size_t>(index)]; }
  template <class Ready>
  void wait_for(int index, Ready is_ready);
  bool has_left(int index);
  void rest(uint32_t seen, Clock::duration waited, Clock::duration left);
  void take_all();
  std::optional<rpc::Message> take_message(int index);
  void take_from(int index);
  Error loss(int index, const std::string& why, const Collective& call);
  void fail_late(int index);

  const int rank_;
  const std::chrono::milliseconds timeout_;
  const std::unique_ptr<RingCarrier> carrier_;
  std::vector<Peer> peers_;
  const Collective* call_ = nullptr;
  Epoch epoch_;  // advances when something has come
  std::mutex mutex_;
  std::atomic<bool> has_failed_ = false;
  std::optional<Error> failure_;  // once set, unchanged
};

}  // namespace tutti
