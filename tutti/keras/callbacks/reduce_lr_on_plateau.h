#pragma once

#include <cstdint>
#include <string>

#include "tutti/keras/callbacks/callback.h"
#include "tutti/keras/callbacks/monitor.h"

namespace tutti::keras::callbacks {

struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;    // of the new learning rate to the old one
  int64_t patience = 10;  // epochs without an improvement after which it is reduced
  bool verbose = false;   // says on std::cout what it does
  MonitorMode mode = MonitorMode::automatic;
  double min_delta = 1e-4;  // what is better by less is no improvement
  int64_t cooldown = 0;     // epochs after a reduction in which nothing is counted
  double min_lr = 0;        // lower bound of the learning rate
};

// Reduces the learning rate when a number has stopped improving; adds "learning_rate" to the logs. Throws from fit:
// failed_precondition where a schedule gives the learning rate. TF: tf.keras.callbacks.ReduceLROnPlateau
class ReduceLROnPlateau : public Callback {
 public:
  // Throws: invalid_argument for a factor outside of [0, 1), a negative patience, cooldown or min_lr.
  explicit ReduceLROnPlateau(const ReduceLROnPlateauOptions& options = {});
};

}  // namespace tutti::keras::callbacks
