#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tutti/serving/grpc_message.h"
#include "tutti/serving/rpc/tls.h"

namespace tutti::serving {

struct GrpcServerOptions {
  std::string host = "127.0.0.1";  // an address of this host; "0.0.0.0" for all
  int port = 0;                    // 0: one that is free
  uint64_t max_message_bytes = 64 << 20;
  uint64_t max_bytes = 1 << 30;                       // of all calls that are here
  int max_calls = 1024;                               // that are here
  std::chrono::milliseconds receive_timeout{10'000};  // for a message to arrive
  std::chrono::milliseconds answer_timeout{60'000};   // for the handler
  TlsCredentials tls = {};                            // empty: none
};

// Takes calls of any method that have one message, and answers each with one or a code. It runs on gRPC's threads,
// which are not more with more calls; every wait has a deadline.
class GrpcServer {
 public:
  // Runs on one of gRPC's threads, and must not block it.
  using Handler = std::function<void(GrpcCall call, GrpcReply reply)>;

  // Throws: invalid_argument, not_found and failed_precondition for no address of this host; already_exists where the
  // port is taken.
  GrpcServer(const GrpcServerOptions& options, Handler handler);
  // stop() without grace.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const;
  // Answers the calls that are under way and those that come within a second, refuses others as unavailable, and ends.
  // False where some had no answer after `grace`.
  bool stop(std::chrono::milliseconds grace);
  // Ends the grace of a stop() on another thread.
  void hurry();

 private:
  class Call;
  class Calls;
  class Service;
  struct Listening;

  std::shared_ptr<Calls> calls_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Listening> listening_;
};

}  // namespace tutti::serving
