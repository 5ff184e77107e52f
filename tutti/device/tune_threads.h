#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti {

// Gives LibTorch's operations as many threads as processors are free now, at least one, and returns how many: it looks
// for this long at what others do. Its threads wait for each other spinning, so that beside a busy neighbour an
// operation on all processors takes several times as long as one on those that are free. Holds for the whole process
// until the next call, or at::set_num_threads; replicas have one thread each anyway. Call it in main, and between two
// trainings if neighbours come and go. Where the system does not tell (it is no Linux), all processors count as free.
int tune_threads(std::chrono::milliseconds time = std::chrono::milliseconds(100));

namespace tune_threads_internal {

// Since the system started, in its clock's ticks, of all processors together.
struct ProcessorTimes {
  int64_t idle = 0;
  int64_t all = 0;
};
// From the text of /proc/stat; none if it is another.
std::optional<ProcessorTimes> parse_processor_times(std::string_view text);

// What all processors and this process have done so far.
struct Usage {
  std::optional<ProcessorTimes> all = {};  // none where the system does not tell
  double own_seconds = 0;
  static Usage now();
};
// How many processors nobody else used meanwhile; all, where the system does not tell.
int free_processors(const Usage& before, const Usage& after, std::chrono::duration<double> time);

// How many of `processors` nobody else used between two times, in which this process used `own` of them.
int free_processors(const ProcessorTimes& before, const ProcessorTimes& after, double own, int processors);

}  // namespace tune_threads_internal

}  // namespace tutti
