#include <algorithm>
#include <chrono>
#include <limits>

#include "tutti/function/replay.h"

namespace tutti {

std::vector<Replay::StepTime> Replay::step_times(at::ArrayRef<Tensor> arguments, int runs) {
  std::vector<StepTime> times;
  for (const Step& step : steps_) {
    times.push_back({step.call().name, std::numeric_limits<double>::infinity()});
    for (size_t i = 1; i < step.calls.size(); ++i) times.back().calls += " + " + step.calls[i]->name;
  }
  for (int run = 0; run < runs; ++run)
    run_with(arguments, [&] {
      for (size_t i = 0; i < steps_.size(); ++i) {
        const auto begin = std::chrono::steady_clock::now();
        Segment step{i, i + 1};
        run_segment(step);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        times[i].seconds = std::min(times[i].seconds, taken.count());
      }
    });
  return times;
}

}  // namespace tutti
