#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "tutti/keras/history.h"
#include "tutti/keras/progbar.h"
#include "tutti/keras/running_logs.h"

namespace tutti::keras {

// How much fit and evaluate print. Keras: verbose "auto", 0, 1 and 2.
enum class Verbose {
  automatic,  // progress_bar on a terminal, one_line elsewhere
  silent,
  progress_bar,  // one line that is drawn again while an epoch runs
  one_line,      // one line per epoch, without control characters
};

// Prints the progress of fit and evaluate as Keras does:
//   Epoch 1/3
//   469/469 - 3s - 7ms/step - accuracy: 0.9142 - loss: 0.3012 - val_accuracy: 0.9701 - val_loss: 0.0988
class Progress {
 public:
  Progress(std::ostream& out, Verbose verbose);

  // `steps` are those of the epoch; negative: unknown.
  void begin_epoch(int64_t epoch, int64_t epochs, int64_t steps);
  // Draws the bar again if it is time to; only then asks for the numbers, which waits for the devices.
  void step(int64_t steps_done, const RunningLogs& running);
  void end_epoch(int64_t steps, const Logs& logs);

 private:
  std::ostream& out_;
  Verbose verbose_;  // never automatic
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<Progbar> bar_;
  int64_t target_ = -1;
};

// "469/469 - 3s - 7ms/step - loss: 0.3012"
std::string progress_line(int64_t steps, std::chrono::duration<double> elapsed, const Logs& logs);

}  // namespace tutti::keras
