#include "tutti/tools/node_message.h"

#include <limits>

#include "tutti/core/bytes.h"

namespace tutti::tools {
namespace {

constexpr int64_t kNoVerdict = -1;
constexpr int64_t kMostWorkers = std::numeric_limits<int>::max();

}  // namespace

std::vector<uint8_t> encode(const NodeReport& report) {
  ByteWriter writer;
  writer.number(report.worker);
  writer.number(report.exit_code);
  writer.text(report.how);
  writer.number(report.wants_verdict);
  return writer.bytes();
}

NodeReport decode_node_report(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes, "a report of another host");
  NodeReport report;
  report.worker = static_cast<int>(reader.number_in(0, kMostWorkers));
  report.exit_code = static_cast<int>(reader.number_in(0, 255));
  report.how = reader.text();
  report.wants_verdict = reader.number_in(0, 1) != 0;
  reader.finish();
  return report;
}

std::vector<uint8_t> encode(const NodeOrder& order) {
  ByteWriter writer;
  writer.number(order.worker);
  writer.number(order.verdict ? static_cast<int64_t>(order.verdict->kind) : kNoVerdict);
  if (order.verdict) {
    writer.text(order.verdict->why);
    writer.number(order.verdict->attempt);
  }
  return writer.bytes();
}

NodeOrder decode_node_order(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes, "an order of the first host");
  NodeOrder order{.worker = static_cast<int>(reader.number_in(0, kMostWorkers))};
  const int64_t kind = reader.number_in(kNoVerdict, static_cast<int64_t>(Verdict::Kind::starts_again));
  if (kind != kNoVerdict) {
    order.verdict = Verdict{.kind = static_cast<Verdict::Kind>(kind), .why = reader.text()};
    order.verdict->attempt = static_cast<int>(reader.number_in(0, std::numeric_limits<int>::max()));
  }
  reader.finish();
  return order;
}

}  // namespace tutti::tools
