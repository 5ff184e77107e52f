#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

namespace tutti::keras::optimizers {

// A number, or a function from the number of updates already made to the rate of the next one (a schedule).
class LearningRate {
 public:
  LearningRate(double rate) : number_(rate) {}

  template <std::invocable<int64_t> Schedule>
  LearningRate(Schedule schedule) : schedule_(std::move(schedule)) {}

  double operator()(int64_t iterations) const { return number_ ? *number_ : schedule_(iterations); }

  // Nothing for a schedule.
  const std::optional<double>& number() const { return number_; }
  // Null for another one.
  template <class Schedule>
  const Schedule* schedule() const {
    return schedule_.template target<Schedule>();
  }

 private:
  std::optional<double> number_;
  std::function<double(int64_t)> schedule_;
};

}  // namespace tutti::keras::optimizers
