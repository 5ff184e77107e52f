#pragma once

namespace tutti::keras {

// While one lives, weights that layers make on this thread have no values: for a model all of whose weights are about
// to be read. Memory without values costs nothing, however much of it a file asks for.
class WeightsToCome {
 public:
  WeightsToCome();
  ~WeightsToCome();
  WeightsToCome(const WeightsToCome&) = delete;
  WeightsToCome& operator=(const WeightsToCome&) = delete;

  static bool in_force();

 private:
  bool before_;
};

}  // namespace tutti::keras
