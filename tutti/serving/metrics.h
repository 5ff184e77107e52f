#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

namespace tutti::serving {

// Counts of a server, for Prometheus. Any thread may call.
class Metrics {
 public:
  using Seconds = std::chrono::duration<double>;

  // `model` is one that is served, or empty: a stranger's word would be a series of its own. `status`: "200",
  // "NOT_FOUND".
  void add_request(const std::string& model, std::string_view method, std::string_view status, Seconds duration);
  void add_batch(const std::string& model, int64_t num_requests, int64_t num_rows, Seconds duration);
  void set_queued(const std::string& model, int64_t num_requests);

  // In Prometheus's text format 0.0.4.
  std::string text() const;

 private:
  static constexpr std::array<double, 14> kBounds = {0.0005, 0.001, 0.002, 0.004, 0.006, 0.01, 0.02,
                                                     0.05,   0.1,   0.2,   0.5,   1,     5,    30};
  struct Durations {
    std::array<uint64_t, kBounds.size() + 1> counts = {};  // of those up to each bound, and above
    double sum = 0;
    void add(double seconds);
  };
  struct Batches {
    uint64_t count = 0, num_requests = 0, num_rows = 0;
    double seconds = 0;
  };

  mutable std::mutex mutex_;
  std::map<std::tuple<std::string, std::string, std::string>, uint64_t> requests_;  // by model, method, status
  std::map<std::string, Durations> durations_;
  std::map<std::string, Batches> batches_;
  std::map<std::string, int64_t> queued_;
};

}  // namespace tutti::serving
