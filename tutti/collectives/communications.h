#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// What communicated, and why.
struct CommunicationKind {
  std::string op;              // "all_reduce", "all_gather", …
  std::string mesh_dimension;  // "replica", …
  std::string cause;           // the aten op or the function that needed it
  bool implied = false;        // no line of user code asked for it
  bool free = false;           // no bytes moved, because the devices share one buffer

  friend auto operator<=>(const CommunicationKind&, const CommunicationKind&) = default;
};

struct Communication : CommunicationKind {
  int64_t count = 0;  // calls
  int64_t bytes = 0;  // the sum over calls of the bytes of one replica's value
};

// What this process has communicated since the start or the last reset, by kind, in alphabetical order.
// Threads: may be called at any time; calls that are being recorded meanwhile may be missing.
std::vector<Communication> communications();
void reset_communications();

// Counts the calls of one kind. Recording takes two atomic additions: no lock, no allocation.
class CommunicationCounter {
 public:
  void record(int64_t bytes) {
    count_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  friend std::vector<Communication> communications();
  friend void reset_communications();

  std::atomic<int64_t> count_ = 0;
  std::atomic<int64_t> bytes_ = 0;
};

// The counter of a kind, which lives as long as the process: look it up once, when a plan is made.
CommunicationCounter& communication_counter(const CommunicationKind& kind);

}  // namespace tutti
