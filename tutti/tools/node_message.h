#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/tools/launch_places.h"

// What the commands `tutti launch` of several hosts tell each other about the processes of an elastic run. Values.
namespace tutti::tools {

constexpr const char* kNodePurpose = "launcher";  // of the streams between them
constexpr size_t kMaxNodeMessage = 4096;          // bytes

// To the first host: a worker has ended.
struct NodeReport {
  int worker = 0;  // among those of all hosts
  int exit_code = 0;
  std::string how = {};        // "died with signal 9 (Killed)"
  bool wants_verdict = false;  // what is to be done is asked

  bool operator==(const NodeReport&) const = default;
};
std::vector<uint8_t> encode(const NodeReport& report);
// For bytes from anywhere. Throws: data_loss for what is no report.
NodeReport decode_node_report(std::span<const uint8_t> bytes);

// From the first host: what is done about a worker that has ended, or, without a verdict, that it is to be killed,
// since the others have given it up.
struct NodeOrder {
  int worker = 0;
  std::optional<Verdict> verdict = {};

  bool operator==(const NodeOrder&) const = default;
};
std::vector<uint8_t> encode(const NodeOrder& order);
// For bytes from anywhere. Throws: data_loss for what is no order.
NodeOrder decode_node_order(std::span<const uint8_t> bytes);

}  // namespace tutti::tools
