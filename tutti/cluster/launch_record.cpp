#include "tutti/cluster/launch_record.h"

#include <limits>

#include "tutti/core/error.h"

namespace tutti::cluster {
namespace {

constexpr const char* kVariable = "TUTTI_CLUSTER";

int read_number(JsonReader& reader, int low) {
  const int64_t number = reader.integer();
  if (number < low || number > std::numeric_limits<int>::max())
    reader.fail(str("a number from ", low, " was expected"));
  return static_cast<int>(number);
}

LaunchRecord read_record(std::string_view text) {
  LaunchRecord record;
  JsonReader reader(text, kVariable);
  reader.object("TUTTI_CLUSTER", {{"cluster", [&] { record.spec = ClusterSpec::read(reader); }},
                                  {"task",
                                   [&] {
                                     reader.object("task",
                                                   {{"type", [&] { record.task.type = reader.text(); }},
                                                    {"index", [&] { record.task.index = read_number(reader, 0); }}});
                                   }},
                                  {"memory", [&] { record.memory = read_number(reader, -1); }},
                                  {"control", [&] { record.control = read_number(reader, -1); }},
                                  {"elastic", [&] { record.is_elastic = read_number(reader, 0) != 0; }},
                                  {"leader", [&] { record.leader = reader.text(); }}});
  reader.end();
  record.spec.address(record.task);
  return record;
}

}  // namespace

LaunchRecord LaunchRecord::parse(std::string_view text) {
  try {
    return read_record(text);
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_argument,
                str(error.what(), " (", kVariable, " is what `tutti launch` tells its processes; do not set it)"));
  }
}

std::string to_string(const LaunchRecord& record) {
  return str("{\"cluster\": ", to_string(record.spec), ", \"task\": {\"type\": ", json_text(record.task.type),
             ", \"index\": ", record.task.index, "}, \"memory\": ", record.memory, ", \"control\": ", record.control,
             record.is_elastic ? ", \"elastic\": 1" : "",
             record.leader.empty() ? "" : str(", \"leader\": ", json_text(record.leader)), '}');
}

LaunchedClusterResolver::LaunchedClusterResolver(const Environment& environment)
    : ClusterResolver([&] {
        LaunchRecord record = LaunchRecord::parse(environment.text(kVariable));
        return Found{.spec = std::move(record.spec), .task_type = record.task.type, .task_id = record.task.index};
      }()) {}

}  // namespace tutti::cluster
