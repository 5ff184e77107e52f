#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "tutti/checkpoint/checkpoint.h"
#include "tutti/checkpoint/file_system.h"

namespace tutti::train {

struct CheckpointManagerOptions {
  std::optional<int64_t> max_to_keep = 5;                          // nullopt keeps all
  std::chrono::seconds keep_every = std::chrono::seconds::zero();  // one in each such time is kept for ever; zero: none
  bool async = false;                                              // save() returns when a snapshot is taken
  checkpoint::FileSystem* files = nullptr;                         // null: the disks of this machine
};

// The numbered checkpoints of one directory: saves, keeps the newest, finds the latest. One process at a time may save.
// TF: tf.train.CheckpointManager.
//
// Asynchronous saves: the caller waits for copy-on-write clones of the tensors, and a thread writes them. A save waits
// for the one before, and throws what that threw; so do wait() and latest_checkpoint(). The destructor waits; an error
// that nobody was told is then logged.
class CheckpointManager {
 public:
  // Throws: invalid_argument for a max_to_keep below 1.
  CheckpointManager(Checkpoint checkpoint, std::filesystem::path directory, CheckpointManagerOptions options = {});
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Saves under the next number, or this one, and deletes what is no longer kept. Returns where the checkpoint is, or
  // will be once it was written. Throws: as Checkpoint::write.
  std::filesystem::path save(std::optional<int64_t> number = {});
  // Returns when all that was saved is safe. Throws: what the save in the background threw.
  void wait();

  // Restores the newest checkpoint that is whole, and names in one warning those that are damaged. Returns its folder,
  // or nullopt, with nothing changed, where there is none. Throws: data_loss where all are damaged;
  // failed_precondition, with nothing changed, where names, shapes or dtypes are not the objects'. TF:
  // restore_or_initialize.
  std::optional<std::filesystem::path> restore_or_initialize();

  // The newest one; nullopt before the first. Throws: as wait().
  std::optional<std::filesystem::path> latest_checkpoint();
  // All that are kept, oldest first.
  std::vector<std::filesystem::path> checkpoints();

  const Checkpoint& checkpoint() const;
  const std::filesystem::path& directory() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tutti::train
