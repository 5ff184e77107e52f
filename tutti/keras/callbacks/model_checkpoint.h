#pragma once

#include <optional>
#include <string>

#include "tutti/keras/callbacks/callback.h"
#include "tutti/keras/callbacks/frequency.h"
#include "tutti/keras/callbacks/monitor.h"

namespace tutti::keras::callbacks {

struct ModelCheckpointOptions {
  std::string filepath = {};  // required; may have places for numbers, "{epoch:02d}-{val_loss:.2f}"
  std::string monitor = "val_loss";
  bool verbose = false;            // says on std::cout what it does
  bool save_best_only = false;     // by the monitored number
  bool save_weights_only = false;  // else the optimizer's state and the random numbers too
  MonitorMode mode = MonitorMode::automatic;
  Frequency save_freq = "epoch";
  std::optional<double> initial_value_threshold = {};  // with save_best_only, the best value at first
};

// Saves the model during training: with save_weights_only a file, .weights.h5, .safetensors or .npz, for
// Model::load_weights; else the folder of a Checkpoint({{"model", model}}). Each appears when it is whole, in the place
// of one before. Throws from fit: invalid_argument for names in the path that the logs lack; unavailable where nothing
// can be written, before training if that is seen. TF: tf.keras.callbacks.ModelCheckpoint
class ModelCheckpoint : public Callback {
 public:
  // Throws: invalid_argument for a path that has another form, or does not fit save_weights_only.
  explicit ModelCheckpoint(const ModelCheckpointOptions& options);
};

}  // namespace tutti::keras::callbacks
