#include "tutti/serving/metrics.h"

#include <algorithm>
#include <sstream>

namespace tutti::serving {

void Metrics::Durations::add(double seconds) {
  const auto bound = std::ranges::lower_bound(kBounds, seconds);
  ++counts[static_cast<size_t>(bound - kBounds.begin())];
  sum += seconds;
}

void Metrics::add_request(const std::string& model, std::string_view method, std::string_view status,
                          Seconds duration) {
  const std::lock_guard lock(mutex_);
  ++requests_[{model, std::string(method), std::string(status)}];
  durations_[model].add(duration.count());
}

void Metrics::add_batch(const std::string& model, int64_t num_requests, int64_t num_rows, Seconds duration) {
  const std::lock_guard lock(mutex_);
  Batches& batches = batches_[model];
  ++batches.count;
  batches.num_requests += static_cast<uint64_t>(num_requests);
  batches.num_rows += static_cast<uint64_t>(num_rows);
  batches.seconds += duration.count();
}

void Metrics::set_queued(const std::string& model, int64_t num_requests) {
  const std::lock_guard lock(mutex_);
  queued_[model] = num_requests;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::ostringstream out;
  const auto head = [&](const char* name, const char* kind, const char* what) {
    out << "# HELP tutti_serving_" << name << ' ' << what << "\n# TYPE tutti_serving_" << name << ' ' << kind << '\n';
  };
  head("requests_total", "counter", "Requests that were answered, by status.");
  for (const auto& [key, count] : requests_)
    out << "tutti_serving_requests_total{model=\"" << std::get<0>(key) << "\",method=\"" << std::get<1>(key)
        << "\",status=\"" << std::get<2>(key) << "\"} " << count << '\n';
  head("request_seconds", "histogram", "From a request's arrival to its answer.");
  for (const auto& [model, durations] : durations_) {
    uint64_t below = 0;
    for (size_t i = 0; i < durations.counts.size(); ++i) {
      out << "tutti_serving_request_seconds_bucket{model=\"" << model << "\",le=\"";
      (i < kBounds.size() ? out << kBounds[i] : out << "+Inf") << "\"} " << (below += durations.counts[i]) << '\n';
    }
    out << "tutti_serving_request_seconds_sum{model=\"" << model << "\"} " << durations.sum << '\n'
        << "tutti_serving_request_seconds_count{model=\"" << model << "\"} " << below << '\n';
  }
  const auto batches = [&](const char* name, const char* what, auto number) {
    head(name, "counter", what);
    for (const auto& [model, counted] : batches_)
      out << "tutti_serving_" << name << "{model=\"" << model << "\"} " << number(counted) << '\n';
  };
  batches("batches_total", "Calls of models.", [](const Batches& b) { return b.count; });
  batches("batched_requests_total", "Requests in these calls.", [](const Batches& b) { return b.num_requests; });
  batches("batched_rows_total", "Rows in these calls.", [](const Batches& b) { return b.num_rows; });
  batches("batch_seconds_total", "How long these calls took.", [](const Batches& b) { return b.seconds; });
  head("queued_requests", "gauge", "Requests that wait for a call.");
  for (const auto& [model, count] : queued_)
    out << "tutti_serving_queued_requests{model=\"" << model << "\"} " << count << '\n';
  return out.str();
}

}  // namespace tutti::serving
