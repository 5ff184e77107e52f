#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "tutti/core/error.h"
#include "tutti/serving/compression.h"

namespace tutti::serving {

// How a call ended, by gRPC's numbers.
enum class GrpcCode {
  ok = 0,
  cancelled = 1,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  resource_exhausted = 8,
  failed_precondition = 9,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  unauthenticated = 16
};
// "INVALID_ARGUMENT"
std::string_view to_string(GrpcCode code);
// Of what a request met: damaged data are the request's.
GrpcCode grpc_code(ErrorCode code);

// A call with one message, as gRPC brings it.
struct GrpcCall {
  std::string method;              // "/inference.GRPCInferenceService/ModelInfer"
  std::string message = {};        // protobuf's bytes
  Compression compression = {};    // of the message
  std::string authorization = {};  // of the metadata; empty where it is absent
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
};

struct GrpcAnswer {
  std::string message = {};
  GrpcCode code = GrpcCode::ok;
  std::string error = {};      // what goes with another code, instead of the message
  bool is_compressed = false;  // on its way, by what the client takes
};

// Answers a call. May be called from any thread, later too; the first call counts. Where all copies go without a call,
// the answer is an internal error.
using GrpcReply = std::function<void(GrpcAnswer answer)>;

}  // namespace tutti::serving
