#pragma once

#include <cstdint>
#include <filesystem>

#include "tutti/keras/callbacks/callback.h"
#include "tutti/keras/callbacks/frequency.h"

namespace tutti::keras::callbacks {

struct TensorBoardOptions {
  std::filesystem::path log_dir = "logs";
  int64_t histogram_freq = 0;  // epochs from one histogram of each weight to the next; 0: none
  bool write_images = false;   // with each histogram, the weight as images
  bool write_steps_per_second = false;
  Frequency update_freq = "epoch";  // beside each epoch's numbers, those so far after so many batches
};

// Writes what TensorBoard shows, into log_dir/train and log_dir/validation: epoch_loss, epoch_METRIC and
// epoch_learning_rate of each epoch; with update_freq batch_loss and batch_METRIC, for which it waits for the devices;
// evaluation_loss_vs_iterations and the like of each evaluation. A graph of the model and profiles are not written.
// Throws from fit: unavailable where the files cannot be written. TF: tf.keras.callbacks.TensorBoard
class TensorBoard : public Callback {
 public:
  // Throws: invalid_argument for a negative histogram_freq.
  explicit TensorBoard(const TensorBoardOptions& options = {});
};

}  // namespace tutti::keras::callbacks
