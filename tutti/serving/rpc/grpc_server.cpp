// It includes gRPC's headers, and never sees LibTorch's.
#include "tutti/serving/rpc/grpc_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tutti/cluster/rpc/grpc_runtime.h"
#include "tutti/cluster/rpc/host_address.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/serving/error_text.h"

namespace grpc::internal {

// gRPC's name for who may look behind its buffers, which says no more of a message than its bytes.
class GrpcByteBufferPeer {
 public:
  static const grpc_byte_buffer* inside(ByteBuffer& buffer) { return buffer.c_buffer(); }
};

}  // namespace grpc::internal

namespace tutti::serving {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{100};       // how often deadlines are looked at
constexpr milliseconds kFarewell{1000};  // for a client to learn that its call or its connection ends
constexpr milliseconds kLinger{1000};    // for calls that are on their way when the server stops
constexpr milliseconds kSend{30'000};    // for the other side to take its answer
constexpr milliseconds kRefusing{100};   // for those who still call to go elsewhere
constexpr milliseconds kTickAtEnd{10};   // while the server stops
constexpr int kIdleMs = 75'000;          // of a connection without a call
constexpr int kHandshakeMs = 5'000;
constexpr int kMaxMetadataBytes = 16 << 10;

Clock::time_point steady(std::chrono::system_clock::time_point time) {
  const auto left = time - std::chrono::system_clock::now();
  return left > std::chrono::hours(24 * 365) ? Clock::time_point::max() : Clock::now() + left;
}

grpc::Status status_of(const GrpcAnswer& answer) {
  if (answer.code == GrpcCode::ok) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(answer.code), error_text(answer.error)};  // among headers, which clients bound
}

std::string text_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  text.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

// As a message came, each of which is compressed or not.
Compression compression_of(grpc::ByteBuffer& buffer) {
  const grpc_byte_buffer* const inside = grpc::internal::GrpcByteBufferPeer::inside(buffer);
  if (!inside || inside->type != GRPC_BB_RAW) return Compression::none;
  switch (inside->data.raw.compression) {
    case GRPC_COMPRESS_DEFLATE: return Compression::deflate;
    case GRPC_COMPRESS_GZIP: return Compression::gzip;
    default: return Compression::none;
  }
}

// "127.0.0.1:80", "[::]:80".
std::string address_of(const std::string& host, int port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? str('[', host, "]:", port) : str(host, ':', port);
}

}  // namespace

// Those that are under way, and what bounds them. Shared, as a reply may outlive the server.
class GrpcServer::Calls {
 public:
  Calls(const GrpcServerOptions& of, Handler with) : options(of), handler(std::move(with)) {}

  // Returns why it is refused; empty where it is taken.
  std::string add(Call& call);
  void remove(Call& call);
  // Ends those whose time is over, until end_looking().
  void look();
  void begin_stop(Clock::time_point deadline);
  // Calls are still taken for a while, and then refused until none is left; not beyond the deadline.
  void linger();
  void end_looking();
  bool was_cut() const { return was_cut_; }

  const GrpcServerOptions options;
  const Handler handler;
  std::atomic<uint64_t> num_bytes = 0;

 private:
  std::vector<std::shared_ptr<Call>> open_calls();
  void end_overdue(Clock::time_point now, Clock::time_point stop_deadline);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Call*> calls_;
  bool is_stopping_ = false, is_refusing_ = false, is_over_ = false;
  Clock::time_point stop_deadline_ = Clock::time_point::max();
  std::atomic<bool> was_cut_ = false;
};

// Keeps itself until gRPC has done with it; replies may keep it for longer.
class GrpcServer::Call final : public grpc::ServerGenericBidiReactor, public std::enable_shared_from_this<Call> {
 public:
  Call(grpc::GenericCallbackServerContext& context, std::shared_ptr<Calls> calls)
      : context_(context), calls_(std::move(calls)), deadline_(Clock::now() + calls_->options.receive_timeout) {}
  ~Call() override { calls_->num_bytes -= num_bytes_; }

  void begin() {
    self_ = shared_from_this();
    if (std::string why = calls_->add(*this); !why.empty())
      return finish({.code = GrpcCode::unavailable, .error = std::move(why)});
    StartRead(&in_);
  }
  // The first call counts.
  void finish(GrpcAnswer answer) {
    if (is_finished_.exchange(true)) return;
    deadline_ = Clock::now() + (is_here_ ? kSend : kFarewell);
    const grpc::Status status = status_of(answer);
    if (!status.ok()) return Finish(status);
    auto* const message = new std::string(std::move(answer.message));
    grpc::Slice slice(
        message->data(), message->size(), [](void* held) { delete static_cast<std::string*>(held); }, message);
    out_ = grpc::ByteBuffer(&slice, 1);
    if (answer.is_compressed) context_.set_compression_level(GRPC_COMPRESS_LEVEL_LOW);
    StartWriteAndFinish(&out_, {}, status);
  }
  bool is_finished() const { return is_finished_; }
  // What its time is over for: to arrive, to be answered, or to be sent.
  void end_if_overdue(Clock::time_point now) {
    if (now < deadline_.load()) return;
    if (is_finished_) return cancel();
    finish({.code = GrpcCode::deadline_exceeded,
            .error = is_here_ ? "there was no answer in time" : "the request did not arrive in time"});
  }

 private:
  // Of which replies are copies.
  struct Pending {
    explicit Pending(std::shared_ptr<Call> of) : call(std::move(of)) {}
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    ~Pending() {
      call->finish({.code = GrpcCode::internal, .error = "the request was dropped; this is a defect of the server"});
    }
    const std::shared_ptr<Call> call;
  };

  void OnReadDone(bool ok) override {
    if (!ok) return finish({.code = GrpcCode::invalid_argument, .error = "the call has no message"});
    num_bytes_ = in_.Length();
    const uint64_t num_here = calls_->num_bytes += num_bytes_;
    if (num_here > calls_->options.max_bytes) {
      in_.Clear();
      calls_->num_bytes -= std::exchange(num_bytes_, 0);  // before its client can try again
      return finish({.code = GrpcCode::unavailable, .error = "no memory is left for this request; try again"});
    }
    is_here_ = true;
    if (is_finished_) return;  // its client has gone, or its time was over
    deadline_ = Clock::now() + calls_->options.answer_timeout;
    const auto pending = std::make_shared<Pending>(shared_from_this());
    try {
      calls_->handler(taken(), [pending](GrpcAnswer answer) { pending->call->finish(std::move(answer)); });
    } catch (const std::exception& error) {
      finish({.code = GrpcCode::internal, .error = error.what()});
    }
  }
  void OnCancel() override { finish({.code = GrpcCode::cancelled, .error = "the client has gone"}); }
  void OnDone() override {
    {
      const std::lock_guard lock(context_mutex_);
      is_done_ = true;
    }
    calls_->remove(*this);
    out_.Clear();
    const auto last = std::move(self_);
  }

  void cancel() {
    const std::lock_guard lock(context_mutex_);
    if (!is_done_) context_.TryCancel();
  }

  GrpcCall taken() {
    GrpcCall call{.method = context_.method(),
                  .message = text_of(in_),
                  .compression = compression_of(in_),
                  .deadline = steady(context_.deadline())};
    in_.Clear();
    const auto& metadata = context_.client_metadata();
    if (const auto found = metadata.find("authorization"); found != metadata.end())
      call.authorization.assign(found->second.data(), found->second.size());
    return call;
  }

  grpc::GenericCallbackServerContext& context_;  // until OnDone
  std::recursive_mutex context_mutex_;           // as gRPC may call OnDone from within TryCancel
  bool is_done_ = false;
  const std::shared_ptr<Calls> calls_;
  std::shared_ptr<Call> self_;
  grpc::ByteBuffer in_, out_;
  uint64_t num_bytes_ = 0;
  std::atomic<Clock::time_point> deadline_;
  std::atomic<bool> is_here_ = false, is_finished_ = false;
};

std::string GrpcServer::Calls::add(Call& call) {
  const std::lock_guard lock(mutex_);
  if (is_refusing_) return "the server is ending";
  if (calls_.size() >= static_cast<size_t>(options.max_calls))
    return str("there are ", options.max_calls, " calls already; try again");
  calls_.insert(&call);
  return "";
}

void GrpcServer::Calls::remove(Call& call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(&call);
  if (calls_.empty()) changed_.notify_all();
}

std::vector<std::shared_ptr<GrpcServer::Call>> GrpcServer::Calls::open_calls() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Call>> open;
  for (Call* const call : calls_) open.push_back(call->shared_from_this());
  return open;
}

void GrpcServer::Calls::end_overdue(Clock::time_point now, Clock::time_point stop_deadline) {
  for (const auto& call : open_calls()) {
    if (now >= stop_deadline && !call->is_finished()) {
      was_cut_ = true;
      call->finish({.code = GrpcCode::unavailable, .error = "the server has ended"});
    }
    call->end_if_overdue(now);
  }
}

void GrpcServer::Calls::look() {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    changed_.wait_for(lock, is_stopping_ ? kTickAtEnd : kTick);
    const auto stop_deadline = stop_deadline_;
    lock.unlock();
    end_overdue(Clock::now(), stop_deadline);
    lock.lock();
  }
}

void GrpcServer::Calls::begin_stop(Clock::time_point deadline) {
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
  stop_deadline_ = std::min(stop_deadline_, deadline);
  changed_.notify_all();
}

void GrpcServer::Calls::linger() {
  std::unique_lock lock(mutex_);
  const auto wait = [&](milliseconds time) {
    const auto end = Clock::now() + time;
    const auto until = [&] { return std::min(end, stop_deadline_); };
    while (Clock::now() < until()) changed_.wait_until(lock, until());
  };
  wait(kLinger);
  is_refusing_ = true;
  wait(kRefusing);
  while (!calls_.empty() && Clock::now() < stop_deadline_) changed_.wait_until(lock, stop_deadline_);
}

void GrpcServer::Calls::end_looking() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

class GrpcServer::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(std::shared_ptr<Calls> calls) : calls_(std::move(calls)) {}

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    const auto call = std::make_shared<Call>(*context, calls_);
    call->begin();
    return call.get();
  }

  const std::shared_ptr<Calls> calls_;
};

struct GrpcServer::Listening {
  std::unique_ptr<grpc::Server> server;
  int port = 0;
  std::thread looking;
  std::mutex stop_mutex;
  bool has_stopped = false;
};

namespace {

void limit(grpc::ServerBuilder& builder, const GrpcServerOptions& options) {
  const auto bounded = [](uint64_t bytes) {
    return static_cast<int>(std::min<uint64_t>(bytes, std::numeric_limits<int>::max()));
  };
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_calls);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.SetMaxReceiveMessageSize(bounded(options.max_message_bytes));
  // gRPC would inflate a message before it looks at its size.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  // Of messages that have begun to arrive, beside what gRPC needs itself.
  constexpr uint64_t kOfGrpc = 64 << 20;
  builder.SetResourceQuota(grpc::ResourceQuota("tutti_serving").Resize(options.max_bytes + kOfGrpc));
}

std::shared_ptr<grpc::ServerCredentials> credentials_of(const TlsCredentials& tls) {
  if (tls.is_empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(tls.client_authority.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = tls.client_authority;
  options.pem_key_cert_pairs.push_back({tls.key, tls.certificate});
  return grpc::SslServerCredentials(options);
}

}  // namespace

GrpcServer::GrpcServer(const GrpcServerOptions& options, Handler handler)
    : calls_(std::make_shared<Calls>(options, std::move(handler))),
      service_(std::make_unique<Service>(calls_)),
      listening_(std::make_unique<Listening>()) {
  rpc::begin_grpc();
  const std::string address = address_of(options.host, options.port);
  rpc::check_can_listen(address);
  grpc::ServerBuilder builder;
  limit(builder, options);
  builder.AddListeningPort(address, credentials_of(options.tls), &listening_->port);
  builder.RegisterCallbackGenericService(service_.get());
  listening_->server = builder.BuildAndStart();
  if (!listening_->server) throw Error(ErrorCode::unavailable, str("serving: gRPC can't listen at ", address));
  listening_->looking = std::thread([calls = calls_] { calls->look(); });
}

GrpcServer::~GrpcServer() { stop(milliseconds(0)); }

int GrpcServer::port() const { return listening_->port; }

bool GrpcServer::stop(milliseconds grace) {
  const std::lock_guard lock(listening_->stop_mutex);
  if (!std::exchange(listening_->has_stopped, true)) {
    calls_->begin_stop(Clock::now() + grace);
    // A call that comes behind gRPC's Shutdown is cut without a word before its client has learned to go elsewhere.
    calls_->linger();
    listening_->server->Shutdown(std::chrono::system_clock::now() + kFarewell);
    listening_->server->Wait();
    calls_->end_looking();
    listening_->looking.join();
  }
  return !calls_->was_cut();
}

void GrpcServer::hurry() { calls_->begin_stop(Clock::now()); }

}  // namespace tutti::serving
