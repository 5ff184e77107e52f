#include "tests/support/grpc_client.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tutti/cluster/rpc/grpc_runtime.h"

namespace tutti::testing_support {

using grpc::ByteBuffer;
using serving::GrpcAnswer;
using serving::GrpcCode;
using std::chrono::milliseconds;

struct GrpcClient::Channel {
  std::shared_ptr<grpc::Channel> channel;
  grpc::GenericStub stub{channel};
};

namespace {

std::shared_ptr<grpc::Channel> channel_to(int port, const std::string& authority, bool inflates = true) {
  rpc::begin_grpc();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, inflates ? 1 : 0);
  if (!authority.empty()) arguments.SetSslTargetNameOverride("localhost");
  return grpc::CreateCustomChannel(
      "ipv4:127.0.0.1:" + std::to_string(port),
      authority.empty() ? grpc::InsecureChannelCredentials() : grpc::SslCredentials({authority, "", ""}), arguments);
}

// One end of a call, for which a thread waits.
class Waiting {
 public:
  void end(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    status_ = status, is_over_ = true;
    changed_.notify_one();
  }
  grpc::Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_over_; });
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  grpc::Status status_;
  bool is_over_ = false;
};

class Silent final : public grpc::ClientBidiReactor<ByteBuffer, ByteBuffer>, public Waiting {
 public:
  void OnDone(const grpc::Status& status) override { end(status); }
};

std::string path_of(const std::string& method) { return "/inference.GRPCInferenceService/" + method; }

void set_timeout(grpc::ClientContext& context, milliseconds timeout) {
  context.set_deadline(std::chrono::system_clock::now() + timeout);
}

ByteBuffer buffer_of(const std::string& message) {
  const grpc::Slice slice(message);
  return {&slice, 1};
}

GrpcAnswer answer_of(const grpc::Status& status, const ByteBuffer& buffer) {
  if (!status.ok()) return {.code = static_cast<GrpcCode>(status.error_code()), .error = status.error_message()};
  std::vector<grpc::Slice> slices;
  std::string message;
  if (buffer.Valid()) (void)buffer.Dump(&slices);
  for (const grpc::Slice& slice : slices) message.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return {.message = message};
}

}  // namespace

GrpcClient::GrpcClient(int port, const std::string& authority)
    : channel_(std::make_unique<Channel>(Channel{.channel = channel_to(port, authority)})) {}

GrpcClient::GrpcClient(std::unique_ptr<Channel> channel) : channel_(std::move(channel)) {}
GrpcClient::GrpcClient(GrpcClient&&) noexcept = default;
GrpcClient::~GrpcClient() = default;

GrpcClient GrpcClient::that_inflates_nothing(int port) {
  return GrpcClient(std::make_unique<Channel>(Channel{.channel = channel_to(port, "", false)}));
}

GrpcAnswer GrpcClient::call(const std::string& method, const std::string& message, const Options& options) {
  grpc::ClientContext context;
  set_timeout(context, options.timeout);
  for (const auto& [name, value] : options.metadata) context.AddMetadata(name, value);
  if (options.compression != serving::Compression::none)
    context.set_compression_algorithm(options.compression == serving::Compression::gzip ? GRPC_COMPRESS_GZIP
                                                                                        : GRPC_COMPRESS_DEFLATE);
  const ByteBuffer request = buffer_of(message);
  ByteBuffer response;
  Waiting waiting;
  channel_->stub.UnaryCall(&context, path_of(method), {}, &request, &response,
                           [&](const grpc::Status& status) { waiting.end(status); });
  const grpc::Status status = waiting.wait();
  return answer_of(status, response);
}

GrpcAnswer GrpcClient::call_without_message(milliseconds timeout) {
  grpc::ClientContext context;
  set_timeout(context, timeout);
  Silent silent;
  channel_->stub.PrepareBidiStreamingCall(&context, path_of("ModelInfer"), {}, &silent);
  silent.StartCall();
  return answer_of(silent.wait(), {});
}

void GrpcClient::call_and_leave(const std::string& method, const std::string& message) {
  grpc::ClientContext context;
  const ByteBuffer request = buffer_of(message);
  ByteBuffer response;
  Waiting waiting;
  channel_->stub.UnaryCall(&context, path_of(method), {}, &request, &response,
                           [&](const grpc::Status& status) { waiting.end(status); });
  std::this_thread::sleep_for(milliseconds(50));
  context.TryCancel();
  waiting.wait();
}

}  // namespace tutti::testing_support
