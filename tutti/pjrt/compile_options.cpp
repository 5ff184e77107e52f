#include "tutti/pjrt/compile_options.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::pjrt {
namespace {

// Protocol-buffer fields: the number and kind of a field, then its value.
void put_varint(std::string& message, uint64_t value) {
  for (; value >= 0x80; value >>= 7) message.push_back(static_cast<char>(value | 0x80));
  message.push_back(static_cast<char>(value));
}
void put_number(std::string& message, int field, int64_t value) {
  put_varint(message, static_cast<uint64_t>(field) << 3);
  put_varint(message, static_cast<uint64_t>(value));
}
void put_message(std::string& message, int field, const std::string& value) {
  put_varint(message, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(message, value.size());
  message += value;
}

// xla.DeviceAssignmentProto: {1 replica_count, 2 computation_count, 3 {1 replica_device_ids}}.
std::string assignment_of(const CompileOptions& options) {
  std::string packed, ids, assignment;
  for (const int64_t device : options.devices) put_varint(packed, static_cast<uint64_t>(device));
  put_message(ids, 1, packed);
  put_number(assignment, 1, options.replicas);
  put_number(assignment, 2, 1);
  put_message(assignment, 3, ids);
  return assignment;
}

}  // namespace

// The field executable_build_options (3) holds {1 device_ordinal, 4 num_replicas, 5 num_partitions, 9
// device_assignment}.
std::string CompileOptions::serialize() const {
  if (replicas < 1 || (!devices.empty() && devices.size() != static_cast<size_t>(replicas)))
    throw Error(ErrorCode::invalid_argument,
                str("a program for ", replicas, " replicas on the devices ", str_list(devices), ": give one for each"));
  std::string build, message;
  put_number(build, 1, -1);
  put_number(build, 4, replicas);
  put_number(build, 5, 1);
  if (!devices.empty()) put_message(build, 9, assignment_of(*this));
  put_message(message, 3, build);
  return message;
}

}  // namespace tutti::pjrt
