#include "tutti/serving/grpc_message.h"

namespace tutti::serving {

std::string_view to_string(GrpcCode code) {
  switch (code) {
    case GrpcCode::ok: return "OK";
    case GrpcCode::cancelled: return "CANCELLED";
    case GrpcCode::invalid_argument: return "INVALID_ARGUMENT";
    case GrpcCode::deadline_exceeded: return "DEADLINE_EXCEEDED";
    case GrpcCode::not_found: return "NOT_FOUND";
    case GrpcCode::already_exists: return "ALREADY_EXISTS";
    case GrpcCode::resource_exhausted: return "RESOURCE_EXHAUSTED";
    case GrpcCode::failed_precondition: return "FAILED_PRECONDITION";
    case GrpcCode::out_of_range: return "OUT_OF_RANGE";
    case GrpcCode::unimplemented: return "UNIMPLEMENTED";
    case GrpcCode::internal: return "INTERNAL";
    case GrpcCode::unavailable: return "UNAVAILABLE";
    case GrpcCode::unauthenticated: return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

GrpcCode grpc_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::cancelled: return GrpcCode::cancelled;
    case ErrorCode::data_loss:
    case ErrorCode::invalid_argument: return GrpcCode::invalid_argument;
    case ErrorCode::deadline_exceeded: return GrpcCode::deadline_exceeded;
    case ErrorCode::not_found: return GrpcCode::not_found;
    case ErrorCode::already_exists: return GrpcCode::already_exists;
    case ErrorCode::failed_precondition: return GrpcCode::failed_precondition;
    case ErrorCode::out_of_range: return GrpcCode::out_of_range;
    case ErrorCode::unimplemented: return GrpcCode::unimplemented;
    case ErrorCode::resource_exhausted: return GrpcCode::resource_exhausted;
    case ErrorCode::unavailable: return GrpcCode::unavailable;
    case ErrorCode::internal: break;
  }
  return GrpcCode::internal;
}

}  // namespace tutti::serving
