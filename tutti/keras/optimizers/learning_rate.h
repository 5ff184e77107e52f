#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>

namespace tutti::keras::optimizers {

// A number, or a function from the number of updates already made to the rate of the next one (a schedule).
class LearningRate {
 public:
  LearningRate(double rate) : schedule_([rate](int64_t) { return rate; }) {}

  template <std::invocable<int64_t> Schedule>
  LearningRate(Schedule schedule) : schedule_(std::move(schedule)) {}

  double operator()(int64_t iterations) const { return schedule_(iterations); }

 private:
  std::function<double(int64_t)> schedule_;
};

}  // namespace tutti::keras::optimizers
