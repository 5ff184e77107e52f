#pragma once

#include <atomic>
#include <cstdint>

namespace tutti {

// When the replicas of a mesh compute. A new period begins whenever they start, meet or end, so that what is looked at
// once in each period is looked at often enough. Threads: any.
class ReplicaClock {
 public:
  uint64_t period() const { return period_.load(std::memory_order_relaxed); }
  bool running() const { return num_running_.load() > 0; }

  void start() {
    ++num_running_;
    ++period_;
  }
  void stop() {
    --num_running_;
    ++period_;
  }

 private:
  std::atomic<uint64_t> period_{1};
  std::atomic<int> num_running_{0};  // strategies on the same devices have one mesh
};

// Replicas compute as long as one lives.
class ReplicasCompute {
 public:
  explicit ReplicasCompute(ReplicaClock& clock) : clock_(clock) { clock_.start(); }
  ~ReplicasCompute() { clock_.stop(); }
  ReplicasCompute(const ReplicasCompute&) = delete;
  ReplicasCompute& operator=(const ReplicasCompute&) = delete;

 private:
  ReplicaClock& clock_;
};

// Replicas that compute wait as long as one lives.
class ReplicasWait {
 public:
  explicit ReplicasWait(ReplicaClock& clock) : clock_(clock) { clock_.stop(); }
  ~ReplicasWait() { clock_.start(); }
  ReplicasWait(const ReplicasWait&) = delete;
  ReplicasWait& operator=(const ReplicasWait&) = delete;

 private:
  ReplicaClock& clock_;
};

}  // namespace tutti
