#include "tutti/cluster/door.h"

#include "tutti/cluster/rpc/memory_stream.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeToProve = 5s;
constexpr auto kTimeToRead = 2s;
constexpr Door::Clock::duration kFirstPause = 2ms, kLongestPause = 100ms;  // of one who comes again
constexpr size_t kMaxGuests = 256, kMaxVisitors = 4096;

void append_bytes(std::vector<uint8_t>& bytes, std::span<const uint8_t> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

Error other_version(int64_t version) {
  return Error(ErrorCode::failed_precondition,
               str("one process speaks version ", version, " of the protocol between hosts, the other version ",
                   kPeerVersion, ": start all of them from one build"));
}

}  // namespace

Door::Door(const std::string& address, Security security, Judge judge)
    : security_(std::move(security)),
      judge_(std::move(judge)),
      server_(std::make_unique<rpc::Server>(address, security_.credentials,
                                            [this](std::unique_ptr<rpc::Stream> stream) { meet(std::move(stream)); })),
      thread_([this] { run(); }) {}

Door::~Door() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
  guests_.clear();
  visitors_.clear();
  arrivals_.clear();
  server_.reset();
}

void Door::meet(std::unique_ptr<rpc::Stream> stream) {
  stream->on_event([this] {
    {
      const std::lock_guard lock(mutex_);
      has_news_ = true;
    }
    changed_.notify_all();
  });
  const std::lock_guard lock(mutex_);
  if (ends_ || arrivals_.size() >= kMaxGuests) return;  // the stream ends here
  arrivals_.push_back(std::move(stream));
  has_news_ = true;
  changed_.notify_all();
}

void Door::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    changed_.wait_for(lock, 100ms, [&] { return has_news_ || ends_; });
    has_news_ = false;
    auto arrivals = std::exchange(arrivals_, {});
    lock.unlock();
    for (auto& stream : arrivals) {
      if (guests_.size() >= kMaxGuests) break;
      guests_.push_back({.stream = std::move(stream), .leaves_at = Clock::now() + kTimeToProve});
    }
    arrivals.clear();
    std::erase_if(guests_, [&](Guest& guest) { return !stays(guest); });
    lock.lock();
  }
}

// What a guest has said since it was last looked at. Returns false once it is a guest no more.
bool Door::stays(Guest& guest) {
  try {
    while (auto message = guest.stream->take()) {
      if (guest.stage == Guest::Stage::greets)
        greet(guest, *message);
      else if (guest.stage == Guest::Stage::proves && judge(guest, *message))
        return false;
    }
  } catch (const Error& error) {
    send_away(guest, error);
  }
  return !guest.stream->end() && Clock::now() < guest.leaves_at;
}

void Door::greet(Guest& guest, const rpc::Message& message) {
  guest.said = message.bytes(kMaxHelloBytes);
  guest.hello = decode_peer_hello(guest.said);
  if (guest.hello.version != kPeerVersion) throw other_version(guest.hello.version);
  Challenge challenge{.nonce = rpc::random_nonce(), .proof = {}};
  append_bytes(guest.said, challenge.nonce);
  challenge.proof = rpc::prove(security_.token, "listener", guest.said);
  guest.stage = Guest::Stage::proves;
  guest.stream->send({encode(challenge)});
}

// What the guest offers to share; null where it offers none, or none that can be.
std::unique_ptr<rpc::SharedMemory> Door::open_memory(const PeerHello& hello, Verdict& verdict) {
  if (hello.memory.empty()) return nullptr;
  try {
    auto memory = rpc::SharedMemory::open(hello.memory);
    verdict.shares_memory = memory != nullptr;
    return memory;
  } catch (const Error& error) {
    verdict.text = error.what();
    return nullptr;
  }
}

// Returns true for one that is let in.
bool Door::judge(Guest& guest, const rpc::Message& message) {
  const rpc::Digest proof = decode_proof(message.bytes(kMaxHelloBytes));
  if (!rpc::are_equal(proof, rpc::prove(security_.token, "dialler", guest.said)))
    throw Error(ErrorCode::failed_precondition, "the token is another one");
  if (const auto refusal = judge_(guest.hello)) throw Error(*refusal);
  guest.stream->on_event(nullptr);
  Verdict verdict{.is_welcome = true};
  auto memory = open_memory(guest.hello, verdict);
  guest.stream->send({encode(verdict)});
  if (memory) guest.stream = rpc::share_memory(std::move(guest.stream), std::move(memory), 1);
  const std::lock_guard lock(mutex_);
  if (visitors_.size() < kMaxVisitors) visitors_.push_back({std::move(guest.hello), std::move(guest.stream)});
  changed_.notify_all();
  return true;
}

void Door::send_away(Guest& guest, const Error& error) {
  if (guest.stage == Guest::Stage::leaves) return;
  guest.stage = Guest::Stage::leaves;
  guest.leaves_at = Clock::now() + kTimeToRead;
  guest.stream->send({encode(Verdict{.code = static_cast<int64_t>(error.code()), .text = error.what()})});
}

std::optional<Door::Visitor> Door::take(const IsWanted& is_wanted, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  std::optional<Visitor> found;
  changed_.wait_until(lock, deadline, [&] {
    for (auto visitor = visitors_.begin(); visitor != visitors_.end(); ++visitor) {
      if (!is_wanted(visitor->hello)) continue;
      found = std::move(*visitor);
      visitors_.erase(visitor);
      return true;
    }
    return ends_;
  });
  return found;
}

std::optional<Door::Visitor> Door::take(const std::string& purpose, Clock::time_point deadline) {
  return take([&](const PeerHello& hello) { return hello.purpose == purpose; }, deadline);
}

std::optional<Door::Visitor> Door::take(const Task& task, const std::string& purpose, Clock::time_point deadline) {
  return take([&](const PeerHello& hello) { return hello.purpose == purpose && hello.task == task; }, deadline);
}

namespace {

// The verdict, or what an early refusal says in its place.
[[noreturn]] void throw_refusal(const std::string& whom, const Verdict& verdict) {
  throw Error(static_cast<ErrorCode>(verdict.code), str(whom, " refuses this process: ", verdict.text));
}

// What this process offers to share; null, and why, where the system gives it none.
std::unique_ptr<rpc::SharedMemory> make_memory(std::string& why) {
  try {
    return rpc::SharedMemory::create();
  } catch (const Error& error) {
    why = error.what();
    return nullptr;
  }
}

// One visit. Throws unavailable where nobody is there, or nobody of this cluster.
std::unique_ptr<rpc::Stream> visit(const std::string& address, const std::string& whom, PeerHello hello,
                                   const Security& security, Door::Clock::time_point deadline, rpc::Carriage over) {
  hello.nonce = rpc::random_nonce();
  std::string refusal;
  auto memory = over == rpc::Carriage::shared_memory ? make_memory(refusal) : nullptr;
  if (memory) hello.memory = memory->offer();
  auto stream = rpc::connect(address, security.credentials);
  std::vector<uint8_t> said = encode(hello);
  stream->send({said});
  const std::vector<uint8_t> answer = stream->receive(deadline).bytes(kMaxHelloBytes);
  if (answer.size() != sizeof(Challenge)) throw_refusal(whom, decode_verdict(answer));
  const Challenge challenge = decode_challenge(answer);
  append_bytes(said, challenge.nonce);
  if (!rpc::are_equal(challenge.proof, rpc::prove(security.token, "listener", said)))
    throw Error(ErrorCode::failed_precondition,
                str(whom, " at ", address,
                    " and this process have different tokens: TUTTI_TOKEN_FILE must name the same "
                    "bytes for all processes of a cluster, or be set for none"));
  stream->send({encode(rpc::prove(security.token, "dialler", said))});
  const Verdict verdict = decode_verdict(stream->receive(deadline).bytes(kMaxHelloBytes));
  if (!verdict.is_welcome) throw_refusal(whom, verdict);
  if (memory && verdict.shares_memory) return rpc::share_memory(std::move(stream), std::move(memory), 0);
  if (memory) refusal = verdict.text;
  if (!refusal.empty())
    warn(
        str(to_string(hello.task), " and ", whom, " share no memory, so that sockets carry what they send: ", refusal));
  return stream;
}

}  // namespace

std::unique_ptr<rpc::Stream> knock(const std::string& address, const std::string& whom, const PeerHello& hello,
                                   const Security& security, std::chrono::milliseconds timeout, rpc::Carriage over) {
  const auto deadline = Door::Clock::now() + timeout;
  auto pause = kFirstPause;
  std::string last = "nobody answered";
  do {
    try {
      return visit(address, whom, hello, security, std::min(deadline, Door::Clock::now() + kTimeToProve), over);
    } catch (const Error& error) {
      const bool may_pass = error.code() == ErrorCode::unavailable || error.code() == ErrorCode::not_found ||
                            error.code() == ErrorCode::deadline_exceeded;
      const std::string text = error.what();
      const bool is_refused = text.find(" refuses this process: ") != std::string::npos;
      if (!may_pass || (is_refused && error.code() != ErrorCode::unavailable)) throw;
      if (text.find("handshake failed") != std::string::npos)
        throw Error(ErrorCode::failed_precondition,
                    str(whom, " at ", address,
                        " and this process do not accept each other's certificates: both must be "
                        "of one authority (TUTTI_TLS_CA), and name the host by which they are reached (",
                        text, ')'));
      last = text;
    }
    std::this_thread::sleep_for(
        std::min(pause, std::max(deadline - Door::Clock::now(), Door::Clock::duration::zero())));
    pause = std::min(2 * pause, kLongestPause);
  } while (Door::Clock::now() < deadline);
  throw Error(ErrorCode::deadline_exceeded, str(to_string(hello.task), " has tried for ", timeout.count(),
                                                " ms to reach ", whom, " at ", address, ": ", last));
}

}  // namespace tutti::cluster
