#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "tutti/serving/grpc_message.h"

namespace tutti::testing_support {

// A channel to a server on this host, without LibTorch's headers and gRPC's to one side of each other.
class GrpcClient {
 public:
  // With `authority`, over TLS, to "localhost".
  explicit GrpcClient(int port, const std::string& authority = "");
  // One that leaves answers compressed as they come.
  static GrpcClient that_inflates_nothing(int port);
  GrpcClient(GrpcClient&&) noexcept;
  ~GrpcClient();

  struct Options {
    std::map<std::string, std::string> metadata = {};
    std::chrono::milliseconds timeout{20'000};
    serving::Compression compression = {};  // of the message
  };
  // Of a method of inference.GRPCInferenceService, with protobuf's bytes.
  serving::GrpcAnswer call(const std::string& method, const std::string& message, const Options& options);
  serving::GrpcAnswer call(const std::string& method, const std::string& message) { return call(method, message, {}); }
  // Begins a call, sends nothing, and returns how the server ended it.
  serving::GrpcAnswer call_without_message(std::chrono::milliseconds timeout);
  // Begins a call with this message, and goes away without waiting for its answer.
  void call_and_leave(const std::string& method, const std::string& message);

 private:
  struct Channel;
  explicit GrpcClient(std::unique_ptr<Channel> channel);

  std::unique_ptr<Channel> channel_;
};

}  // namespace tutti::testing_support
