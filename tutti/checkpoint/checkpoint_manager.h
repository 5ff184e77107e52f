#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "tutti/checkpoint/checkpoint.h"
#include "tutti/checkpoint/file_system.h"

namespace tutti {

// How an asynchronous save keeps the values of its call while it writes them.
enum class Snapshot {
  // Tensors share their memory with the save until they are written to, and then move to memory of their own: save()
  // returns at once, and memory is needed for what is written to. Only LibTorch's operations notice that. A pointer got
  // before (data_ptr, an accessor, from_blob of it) still shows the old memory: writing through it damages the
  // checkpoint, unnoticed until that is read, and when the save is done the memory is gone. Get pointers anew.
  copy_on_write,
  // save() copies all tensors. Pointers stay valid, and may be written through.
  copies,
};

struct CheckpointManagerOptions {
  std::optional<int64_t> max_to_keep = 5;                          // nullopt keeps all
  std::chrono::seconds keep_every = std::chrono::seconds::zero();  // one in each such time is kept for ever; zero: none
  bool async = false;                                              // save() returns when a snapshot is taken
  Snapshot snapshot = Snapshot::copy_on_write;                     // of an asynchronous save
  checkpoint::FileSystem* files = nullptr;                         // null: the disks of this machine
};

// The numbered checkpoints of one directory: saves, keeps the newest, finds the latest. From its first save on a
// manager has the directory to itself (it locks the file `.lock` in it): another one that saves is refused, one that
// only reads is not. TF: tf.train.CheckpointManager.
//
// Asynchronous saves: the caller waits for a Snapshot of the tensors, and a thread writes it. A save waits for the one
// before; what that threw is thrown by it, when it has begun to save all the same, or by wait() or latest_checkpoint().
// The destructor waits; an error that nobody was told is then logged. Of a snapshot nothing is kept once it is written
// and the thread that called save() is here, in a PreemptionCheckpointHandler, at an iterator's next element or a
// strategy's next run.
//
// Of processes that train together, all make the same calls: the chief writes and looks for what is there, all read the
// same checkpoint, and the chief's errors are thrown in all. Who waits for a save waits at most as long as for any
// other collective (CommunicationOptions::timeout).
class CheckpointManager {
 public:
  // A relative directory is looked up here and now. Throws: invalid_argument for none, or a max_to_keep below 1.
  CheckpointManager(Checkpoint checkpoint, std::filesystem::path directory, CheckpointManagerOptions options = {});
  ~CheckpointManager();
  CheckpointManager(const CheckpointManager&) = delete;
  CheckpointManager& operator=(const CheckpointManager&) = delete;

  // Saves under the next number, or this one, and deletes what is no longer kept. Returns where the checkpoint is, or
  // will be once it was written. Throws: as Checkpoint::write; failed_precondition where another manager saves there;
  // invalid_argument for a number below 0 or above 2^63 - 2.
  std::filesystem::path save(std::optional<int64_t> number = {});
  // Returns when all that was saved is safe. Throws: what the save in the background threw.
  void wait();

  // Restores the newest checkpoint that is whole, and names in one warning those that are damaged. Returns its folder,
  // or nullopt, with nothing changed, where there is none. Throws: data_loss where all are damaged;
  // failed_precondition, with nothing changed, where the newest that is whole does not fit: names, shapes or dtypes are
  // not the objects', or an iterator is of another dataset. TF: restore_or_initialize.
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

}  // namespace tutti
