#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/callbacks/callback.h"
#include "tutti/keras/callbacks/monitor.h"

namespace tutti::keras::callbacks {

struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;  // what is better by less is no improvement
  int64_t patience = 0;  // epochs without an improvement after which training stops
  bool verbose = false;  // says on std::cout what it does
  MonitorMode mode = MonitorMode::automatic;
  std::optional<double> baseline = {};  // a value must be better than this one too, for waiting to begin anew
  bool restore_best_weights = false;    // of the best epoch, at the end of training
  int64_t start_from_epoch = 0;         // before it, nothing counts
};

// Stops training when a number has stopped improving. TF: tf.keras.callbacks.EarlyStopping
class EarlyStopping : public Callback {
 public:
  // Throws: invalid_argument for a negative patience or start_from_epoch.
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});

  int64_t stopped_epoch() const;       // 0: it has not stopped the last training
  int64_t best_epoch() const;          // of the last training
  std::optional<double> best() const;  // value
};

}  // namespace tutti::keras::callbacks
