#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>

#include "tutti/keras/history.h"

namespace tutti::keras {

// How much fit and evaluate print. Keras: verbose 0 and 2.
enum class Verbose {
  automatic,  // one_line
  silent,
  one_line,  // one line per epoch, without control characters
};

// Prints the progress of fit and evaluate as Keras does:
//   Epoch 1/3
//   469/469 - 3s - 7ms/step - accuracy: 0.9142 - loss: 0.3012 - val_accuracy: 0.9701 - val_loss: 0.0988
class Progress {
 public:
  Progress(std::ostream& out, Verbose verbose) : out_(out), verbose_(verbose) {}

  void begin_epoch(int64_t epoch, int64_t epochs);
  void end_epoch(int64_t steps, const Logs& logs);

 private:
  std::ostream& out_;
  Verbose verbose_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// "469/469 - 3s - 7ms/step - loss: 0.3012"
std::string progress_line(int64_t steps, std::chrono::duration<double> elapsed, const Logs& logs);

}  // namespace tutti::keras
