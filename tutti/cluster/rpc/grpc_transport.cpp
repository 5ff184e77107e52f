// It includes gRPC's headers, and never sees LibTorch's.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include "tutti/cluster/rpc/grpc_runtime.h"
#include "tutti/cluster/rpc/host_address.h"
#include "tutti/cluster/rpc/transport.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::rpc {
namespace {

using grpc::ByteBuffer;
using grpc::Slice;

constexpr const char* kMethod = "/tutti/stream";

// What is lent is copied.
Slice to_slice(const Payload& payload) {
  if (payload.is_lent()) return {payload.bytes.get(), payload.size};
  auto* bytes = new Payload(payload);
  return {const_cast<std::byte*>(bytes->bytes.get()), bytes->size,
          [](void* held) { delete static_cast<Payload*>(held); }, bytes};
}

ByteBuffer to_buffer(const Outgoing& message) {
  std::vector<Slice> slices;
  slices.emplace_back(message.head.data(), message.head.size());
  if (message.payload.size > 0) slices.push_back(to_slice(message.payload));
  for (const Payload& each : message.more) slices.push_back(to_slice(each));
  return {slices.data(), slices.size()};
}

Message to_message(const ByteBuffer& buffer) {
  const auto slices = std::make_shared<std::vector<Slice>>();
  if (!buffer.Dump(slices.get()).ok()) return {};
  std::vector<Message::Piece> pieces;
  for (const Slice& slice : *slices)
    pieces.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()), slice.size());
  return {slices, std::move(pieces)};
}

// The side that dials. An empty message says that the other side has finished. Deletes itself.
class Dialled final : public grpc::ClientBidiReactor<ByteBuffer, ByteBuffer>, public Wire {
 public:
  Dialled(std::shared_ptr<grpc::Channel> channel, std::shared_ptr<StreamState> state)
      : channel_(std::move(channel)), stub_(channel_), state_(std::move(state)) {
    stub_.PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();  // until nothing more can be read, so that writes may begin at any time before
    StartRead(&in_);
    state_->attach(this);
    StartCall();  // from here on it may end, and delete itself
  }

  void read() override { StartRead(&in_); }
  bool write(const Outgoing& message) override {
    out_ = to_buffer(message);
    StartWrite(&out_);
    return false;
  }
  void finish() override { StartWritesDone(); }
  void cancel() override { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      state_->detach();
      return RemoveHold();
    }
    if (in_.Length() == 0) {
      state_->other_finished();
      return StartRead(&in_);
    }
    if (state_->arrived(to_message(in_))) StartRead(&in_);
  }
  void OnWriteDone(bool ok) override { state_->written(ok); }
  void OnDone(const grpc::Status& status) override {
    state_->ended(status.ok() ? "the other side has closed the connection" : status.error_message());
    delete this;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  ByteBuffer in_, out_;
  const std::shared_ptr<StreamState> state_;
};

// The side that was dialled. Deletes itself.
class Accepted final : public grpc::ServerGenericBidiReactor, public Wire {
 public:
  Accepted(grpc::GenericCallbackServerContext& context, std::shared_ptr<StreamState> state)
      : context_(context), state_(std::move(state)) {
    StartRead(&in_);
    state_->attach(this);
  }

  void read() override { StartRead(&in_); }
  bool write(const Outgoing& message) override {
    out_ = to_buffer(message);
    StartWrite(&out_);
    return false;
  }
  void finish() override { write({}); }
  void cancel() override { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return end("the other side has closed the connection");
    if (in_.Length() == 0) return StartRead(&in_);  // nobody dials to say nothing
    if (state_->arrived(to_message(in_))) StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    state_->written(ok);
    finish_if_ended();
  }
  void OnCancel() override { end("the connection is lost"); }
  void OnDone() override { delete this; }

  void end(const char* why) {
    state_->detach();
    state_->ended(why);
    has_ended_ = true;
    finish_if_ended();
  }
  void finish_if_ended() {
    if (has_ended_ && !state_->is_writing() && !is_finished_.exchange(true)) Finish(grpc::Status::OK);
  }

  grpc::GenericCallbackServerContext& context_;
  ByteBuffer in_, out_;
  std::atomic<bool> has_ended_ = false, is_finished_ = false;
  const std::shared_ptr<StreamState> state_;
};

grpc::ChannelArguments channel_arguments(const std::string& address, const Credentials& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // each stream has a connection of its own
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  arguments.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
  if (!credentials.is_empty()) arguments.SetSslTargetNameOverride(parse_host_port(address).host);
  return arguments;
}

void limit(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, 8'192);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxMessageBytes));
  builder.SetMaxSendMessageSize(static_cast<int>(kMaxMessageBytes));
}

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Credentials& credentials) {
  if (credentials.is_empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = credentials.authority;
  options.pem_key_cert_pairs.push_back({credentials.key, credentials.certificate});
  return grpc::SslServerCredentials(options);
}

}  // namespace

std::unique_ptr<Stream> connect(const std::string& address, const Credentials& credentials) {
  begin_grpc();
  const std::string target = resolve(address);
  const auto proof = credentials.is_empty()
                         ? grpc::InsecureChannelCredentials()
                         : grpc::SslCredentials({credentials.authority, credentials.key, credentials.certificate});
  auto state = std::make_shared<StreamState>();
  new Dialled(grpc::CreateCustomChannel(target, proof, channel_arguments(address, credentials)), state);
  return std::make_unique<Stream>(std::move(state));
}

class Server::Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(OnStream on_stream) : on_stream_(std::move(on_stream)) {}

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    auto state = std::make_shared<StreamState>();
    auto* accepted = new Accepted(*context, state);
    on_stream_(std::make_unique<Stream>(std::move(state)));
    return accepted;
  }

  const OnStream on_stream_;
};

struct Server::Listening {
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

Server::Server(const std::string& address, const Credentials& credentials, OnStream on_stream)
    : service_(std::make_unique<Service>(std::move(on_stream))), listening_(std::make_unique<Listening>()) {
  begin_grpc();
  check_can_listen(address);
  grpc::ServerBuilder builder;
  limit(builder);
  const std::string resolved = resolve(address);
  const std::string place = is_local(address) ? resolved : resolved.substr(resolved.find(':') + 1);
  builder.AddListeningPort(place, server_credentials(credentials), &listening_->port);
  builder.RegisterCallbackGenericService(service_.get());
  listening_->server = builder.BuildAndStart();
  if (!listening_->server)
    throw Error(ErrorCode::invalid_argument,
                str("cannot listen at ", address,
                    credentials.is_empty() ? "" : ": do the key and the certificate belong together?"));
  if (is_local(address)) listening_->port = 0;
}

Server::~Server() {
  listening_->server->Shutdown(std::chrono::system_clock::time_point());  // at once, also where that clock is set back
  listening_->server->Wait();
}

int Server::port() const { return listening_->port; }

}  // namespace tutti::rpc
