#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/checkpoint/checkpoint_list.h"
#include "tutti/checkpoint/contents.h"
#include "tutti/checkpoint/file_system.h"
#include "tutti/checkpoint/reader.h"
#include "tutti/checkpoint/writer.h"

namespace tutti::checkpoint {

// Which checkpoints are kept when another one is saved. The newest is, always.
struct Retention {
  // The number of newest ones to keep; nullopt keeps all. TF: CheckpointManager's max_to_keep.
  std::optional<int64_t> max_to_keep = {};
  // Of those that would be deleted, one in each such time is kept for ever; zero keeps none. TF:
  // keep_checkpoint_every_n_hours.
  std::chrono::seconds keep_every = std::chrono::seconds::zero();
  // Those whose number is a multiple of this are kept for ever; zero keeps none.
  int64_t keep_multiples_of = 0;
};

// The checkpoints of one directory: numbered folders, and the file `checkpoint` that lists them in the order of saving.
// One at a time may save, who has the lock(); any number may read. Only checkpoints are ever replaced or deleted, and
// of links in them nothing that they lead to.
class Folder {
 public:
  // Touches nothing; the directory may not exist yet. `files` must outlive the folder.
  // `now` is the clock of Retention::keep_every.
  // Throws: invalid_argument for a max_to_keep below 1, or a negative keep_every or keep_multiples_of.
  Folder(FileSystem& files, std::filesystem::path directory, Retention retention = {},
         std::function<std::chrono::system_clock::time_point()> now = std::chrono::system_clock::now);

  const std::filesystem::path& directory() const { return directory_; }
  FileSystem& files() const { return files_; }
  // "DIRECTORY/ckpt-7"
  std::filesystem::path path_of(int64_t number) const;
  // The complete checkpoints, oldest first, in the order of saving. Work in progress and leftovers are not among them.
  // Nothing of their contents is read.
  std::vector<int64_t> numbers() const;
  // That of the next save: one more than the largest ever saved, beginning with 1.
  int64_t next_number() const { return list().next_number(); }
  // Throws: invalid_argument for a number that no checkpoint can have, below 0 or without a next one.
  static void check_number(int64_t number);
  // Keeps others from saving while it lives; the directory is made where it is missing. Throws: failed_precondition
  // while somebody else has it.
  std::unique_ptr<FileLock> lock();
  // The newest complete one.
  std::optional<std::filesystem::path> latest() const;

  // Writes a checkpoint, makes the file `checkpoint` name it, then deletes those that are no longer kept; leftovers of
  // killed processes are removed first. Without a `number` it gets next_number(). One with the same number is replaced.
  // Whenever this stops, the newest complete checkpoint is the one before or the new one. Throws: as write() and
  // check_number(); data_loss
  // if the new one cannot be opened, and then nothing is deleted. Where the list cannot be written or a deletion fails
  // the checkpoint is safe, and there is only a warning.
  std::filesystem::path save(const Contents& contents, std::optional<int64_t> number = {},
                             const WriteOptions& options = {});

  // Calls `restore` with the newest checkpoint. If that is damaged (data_loss, from opening it or from `restore`) goes
  // on with the one before, and so on; one warning then names all that were damaged. Returns the one that was restored,
  // nullopt if there is no checkpoint at all.
  // Throws: data_loss, if there are checkpoints and all are damaged; any other error as it comes: a checkpoint that is
  // whole is not passed over.
  std::optional<std::filesystem::path> restore_latest(const std::function<void(const Reader&)>& restore) const;

  // Removes what processes that were killed left behind. Nobody else may be saving.
  void remove_leftovers();

 private:
  void make_directory();
  CheckpointList list() const;

  FileSystem& files_;
  std::filesystem::path directory_;
  Retention retention_;
  std::function<std::chrono::system_clock::time_point()> now_;
  bool is_synced_ = false;  // the name of the directory
};

}  // namespace tutti::checkpoint
