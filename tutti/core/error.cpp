#include "tutti/core/error.h"

#include "tutti/core/str.h"

namespace tutti {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::deadline_exceeded: return "deadline_exceeded";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::already_exists: return "already_exists";
    case ErrorCode::failed_precondition: return "failed_precondition";
    case ErrorCode::out_of_range: return "out_of_range";
    case ErrorCode::unimplemented: return "unimplemented";
    case ErrorCode::resource_exhausted: return "resource_exhausted";
    case ErrorCode::unavailable: return "unavailable";
    case ErrorCode::data_loss: return "data_loss";
    case ErrorCode::internal: return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, const std::string& message, std::source_location location)
    : std::runtime_error(message), code_(code), location_(location) {}

std::string to_string(const std::source_location& location) {
  const std::string_view file = location.file_name();
  return str(file.substr(file.rfind('/') + 1), ':', location.line());
}

}  // namespace tutti
