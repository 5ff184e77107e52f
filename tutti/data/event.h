#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tutti::data {

// Buckets: the left and the right edge, and how many values lie between.
using HistogramBuckets = std::vector<std::array<double, 3>>;

// One thing that TensorBoard shows: a number of its scalars, a text, or a histogram. TF: tf.summary.scalar, text,
// histogram.
struct SummaryValue {
  std::string tag;
  std::variant<float, std::string, HistogramBuckets> value;
  std::string description = {};  // Markdown
};

// The time, in seconds since 1970.
double wall_time_now();

// A record of TensorBoard's event files: what was seen at one step.
struct Event {
  double wall_time = wall_time_now();
  int64_t step = 0;
  std::vector<SummaryValue> values = {};

  // The protocol buffer.
  std::string serialize() const;
};

// The record that every event file begins with.
std::string serialize_file_version(double wall_time = wall_time_now());

}  // namespace tutti::data
