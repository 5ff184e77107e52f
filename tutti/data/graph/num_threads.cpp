#include "tutti/data/graph/num_threads.h"

#include <algorithm>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/options.h"

namespace tutti::data::graph {

int num_threads(const char* op, int num_parallel_calls) {
  if (num_parallel_calls == kAutotune) return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (num_parallel_calls < 1)
    throw Error(ErrorCode::invalid_argument, str(op, ": num_parallel_calls ", num_parallel_calls,
                                                 "; it must be at least 1, kAutotune, or left out"));
  return num_parallel_calls;
}

}  // namespace tutti::data::graph
