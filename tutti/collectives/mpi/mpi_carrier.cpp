#include "tutti/collectives/mpi/mpi_carrier.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "tutti/cluster/rpc/stream.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using Memory = std::shared_ptr<std::byte[]>;

constexpr size_t kFrameBytes = 4000;  // what libraries of MPI send without asking the receiver first

void check_mpi(const char* failure) {
  if (failure) throw Error(ErrorCode::unavailable, str("MPI: ", failure));
}

struct Sending {
  std::vector<std::byte> frame;
  rpc::Payload payload;
  MpiRequest frame_request = 0, payload_request = 0;
};

// One peer's messages. A frame begins with the number of bytes that follow behind it.
struct MpiPeer {
  int place = 0;
  std::deque<Sending> sendings = {};
  Memory frame = {}, payload = {};  // of the message that comes
  size_t frame_size = 0, payload_size = 0;
  MpiRequest frame_request = 0, payload_request = 0;
};

class MpiCarrier final : public RingCarrier {
 public:
  MpiCarrier(const MpiModule& mpi, int rank, const std::vector<int>& places, int tag)
      : mpi_(mpi), rank_(rank), tag_(tag) {
    for (const int place : places) peers_.push_back({.place = place});
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer)
      if (peer != rank_) await_frame(at(peer));
  }
  ~MpiCarrier() override;

  void send(int peer, const rpc::Outgoing& message) override;
  std::optional<rpc::Message> take(int peer) override;
  bool has_sent(int peer) override;
  void give_up() override { mpi_.give_up(); }

 private:
  MpiPeer& at(int peer) { return peers_[static_cast<size_t>(peer)]; }
  bool is_done(MpiRequest& request, size_t* size = nullptr) const;
  void await_frame(MpiPeer& peer) const;
  void await_payload(MpiPeer& peer, uint64_t size) const;
  bool is_free(MpiPeer& peer) const;

  const MpiModule& mpi_;
  const int rank_, tag_;
  std::deque<MpiPeer> peers_;  // by rank
};

bool MpiCarrier::is_done(MpiRequest& request, size_t* size) const {
  bool done = true;
  if (request != 0) check_mpi(mpi_.test(&request, &done, size));
  return done;
}

void MpiCarrier::send(int to, const rpc::Outgoing& message) {
  MpiPeer& peer = at(to);
  const bool fits = sizeof(uint64_t) + message.head.size() + message.payload.size <= kFrameBytes;
  const uint64_t behind = fits ? 0 : message.payload.size;
  const size_t inside = fits ? message.payload.size : 0;
  Sending& sending = peer.sendings.emplace_back();
  sending.frame.resize(sizeof behind + message.head.size() + inside);
  std::memcpy(sending.frame.data(), &behind, sizeof behind);
  std::memcpy(sending.frame.data() + sizeof behind, message.head.data(), message.head.size());
  if (inside > 0)
    std::memcpy(sending.frame.data() + sizeof behind + message.head.size(), message.payload.bytes.get(), inside);
  check_mpi(mpi_.send(peer.place, tag_, sending.frame.data(), sending.frame.size(), &sending.frame_request));
  if (behind == 0) return;
  sending.payload = message.payload;
  check_mpi(
      mpi_.send(peer.place, tag_ + 1, sending.payload.bytes.get(), sending.payload.size, &sending.payload_request));
}

bool MpiCarrier::has_sent(int to) {
  std::deque<Sending>& sendings = at(to).sendings;
  while (!sendings.empty() && is_done(sendings.front().frame_request) && is_done(sendings.front().payload_request))
    sendings.pop_front();
  return sendings.empty();
}

void MpiCarrier::await_frame(MpiPeer& peer) const {
  peer.frame = std::make_shared_for_overwrite<std::byte[]>(kFrameBytes);
  peer.payload.reset();
  peer.frame_size = peer.payload_size = 0;
  check_mpi(mpi_.receive(peer.place, tag_, peer.frame.get(), kFrameBytes, &peer.frame_request));
}

void MpiCarrier::await_payload(MpiPeer& peer, uint64_t size) const {
  if (size > rpc::kMaxMessageBytes)
    throw Error(ErrorCode::data_loss,
                str("a message is to have ", size, " bytes, and none has more than ", rpc::kMaxMessageBytes));
  peer.payload_size = size;
  peer.payload = std::make_shared_for_overwrite<std::byte[]>(size);
  check_mpi(mpi_.receive(peer.place, tag_ + 1, peer.payload.get(), size, &peer.payload_request));
}

std::optional<rpc::Message> MpiCarrier::take(int from) {
  MpiPeer& peer = at(from);
  has_sent(from);  // moves on what goes there
  if (peer.frame_size == 0) {
    if (!is_done(peer.frame_request, &peer.frame_size)) return std::nullopt;
    uint64_t behind = 0;
    if (peer.frame_size < sizeof behind)
      throw Error(ErrorCode::data_loss, str("a message has ", peer.frame_size, " bytes"));
    std::memcpy(&behind, peer.frame.get(), sizeof behind);
    if (behind > 0) await_payload(peer, behind);
  }
  size_t came = peer.payload_size;
  if (!is_done(peer.payload_request, &came)) return std::nullopt;
  std::vector<rpc::Message::Piece> pieces{{peer.frame.get() + sizeof(uint64_t), peer.frame_size - sizeof(uint64_t)}};
  if (came > 0) pieces.emplace_back(peer.payload.get(), came);
  rpc::Message message(std::make_shared<std::pair<Memory, Memory>>(peer.frame, peer.payload), std::move(pieces));
  await_frame(peer);
  return message;
}

// Whether MPI has no memory of a peer's messages any more.
bool MpiCarrier::is_free(MpiPeer& peer) const {
  bool is_free = true;
  for (MpiRequest* const request : {&peer.frame_request, &peer.payload_request})
    is_free = mpi_.cancel(request) && is_free;
  for (Sending& sending : peer.sendings)
    for (MpiRequest* const request : {&sending.frame_request, &sending.payload_request}) {
      bool is_sent = true;
      if (*request != 0) mpi_.test(request, &is_sent, nullptr);
      is_free = is_sent && is_free;
    }
  return is_free;
}

// What MPI has not given back.
void keep_for_life(MpiPeer peer) {
  static std::mutex mutex;
  static auto& kept = *new std::deque<MpiPeer>();
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(peer));
}

MpiCarrier::~MpiCarrier() {
  for (MpiPeer& peer : peers_)
    if (!is_free(peer)) keep_for_life(std::move(peer));
}

}  // namespace

std::unique_ptr<RingCarrier> mpi_carrier(const MpiModule& mpi, int rank, const std::vector<int>& places, int tag) {
  return std::make_unique<MpiCarrier>(mpi, rank, places, tag);
}

}  // namespace tutti
