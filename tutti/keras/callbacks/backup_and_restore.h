#pragma once

#include <filesystem>

#include "tutti/keras/callbacks/callback.h"
#include "tutti/keras/callbacks/frequency.h"

namespace tutti::keras::callbacks {

struct BackupAndRestoreOptions {
  std::filesystem::path backup_dir = {};  // required; for this training alone
  Frequency save_freq = "epoch";
  bool double_checkpoint = false;  // keeps the last two backups, for the case that the last one gets damaged
  bool delete_checkpoint = true;   // when training has ended
};

// Lets a training that was killed go on: backs up the model, its optimizer and all random numbers in the
// CheckpointManager's form, and fit begins by restoring the newest backup. It goes on with the epoch that was
// not finished; a backup made inside of an epoch is followed by the whole of it. After a backup at an epoch's end the
// weights are bit for bit those of a training that was not killed, as far as the data come in the order of
// the random numbers, as tensors' do. The state of other callbacks is not backed up. Throws from fit:
// failed_precondition for a model that is not built, or another one than was backed up; data_loss if all backups are
// damaged. TF: tf.keras.callbacks.BackupAndRestore
class BackupAndRestore : public Callback {
 public:
  // Throws: invalid_argument for an empty backup_dir.
  explicit BackupAndRestore(const BackupAndRestoreOptions& options);
};

}  // namespace tutti::keras::callbacks
