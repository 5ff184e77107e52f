#include "tutti/cluster/rpc/grpc_runtime.h"

#include <grpc/support/log.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tutti::rpc {
namespace {

using grpc::ByteBuffer;

// A call that comes to nothing, on a channel that is never closed.
class FirstCall final : public grpc::ClientBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  FirstCall()
      : channel_(grpc::CreateChannel("unix-abstract:tutti-nobody", grpc::InsecureChannelCredentials())),
        stub_(channel_) {
    stub_.PrepareBidiStreamingCall(&context_, "/tutti/nothing", {}, this);
    StartCall();
    context_.TryCancel();
  }

 private:
  void OnDone(const grpc::Status&) override {}

  const std::shared_ptr<grpc::Channel> channel_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
};

// An assertion of gRPC's that does not hold ends the process: that is not kept quiet.
void print_last_words(gpr_log_func_args* message) {
  if (std::strstr(message->message, "assertion failed") != nullptr)
    std::fprintf(stderr, "gRPC, %s:%d: %s\n", message->file, message->line, message->message);
}

}  // namespace

// The queue of gRPC's callbacks is shared by all channels and ends with the last one, at times by an abort of the
// process (gRPC 1.51): so there is one channel for ever.
void begin_grpc() {
  static const FirstCall* const volatile first = [] {  // volatile, or it is nowhere, and looks like a leak
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function(print_last_words);
    return new FirstCall;
  }();
  (void)first;
}

}  // namespace tutti::rpc
