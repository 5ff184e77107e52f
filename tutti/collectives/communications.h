#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

// What communicated, and why.
struct CommunicationKind {
  // "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "replicate"; to one device "reduce",
  // "gather"
  std::string op;
  std::string mesh_dimension;  // "replica", …
  std::string cause;           // the aten op or the function that needed it
  bool implied = false;        // no line of user code asked for it
  bool free = false;           // no bytes moved, because the devices share one buffer

  friend auto operator<=>(const CommunicationKind&, const CommunicationKind&) = default;
};

struct Communication : CommunicationKind {
  int64_t count = 0;  // calls
  // One device puts a buffer in and gets one out: the bytes of the larger one, summed over calls. That is its value for
  // all_reduce, reduce and broadcast, the result for all_gather and gather, the operand for reduce_scatter and
  // all_to_all (the "size" of nccl-tests); where pieces differ, the first device's. Of pieces of one length each of k
  // devices receives from the others all of it in a broadcast, 2 (k - 1) / k of it in an all_reduce, and (k - 1) / k of
  // it in the others. Zero for replicate, where a plain operand counted as replicated.
  int64_t bytes = 0;
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
