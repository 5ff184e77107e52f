#include "tutti/checkpoint/checkpoint_manager.h"

#include <algorithm>
#include <future>

#include "tutti/checkpoint/folder.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::train {

struct CheckpointManager::State {
  Checkpoint checkpoint;
  checkpoint::Folder folder;
  bool async;
  std::future<void> pending = {};  // the save in the background
  int64_t next_number = 0;         // of asynchronous saves; zero: the disk knows
};

CheckpointManager::CheckpointManager(Checkpoint checkpoint, std::filesystem::path directory,
                                     CheckpointManagerOptions options) {
  checkpoint::FileSystem& files = options.files ? *options.files : checkpoint::posix_file_system();
  checkpoint::Folder folder(files, std::move(directory),
                            {.max_to_keep = options.max_to_keep, .keep_every = options.keep_every});
  state_.reset(new State{.checkpoint = std::move(checkpoint), .folder = std::move(folder), .async = options.async});
}

CheckpointManager::~CheckpointManager() {
  try {
    wait();
  } catch (const std::exception& error) {
    warn(str("the last checkpoint in '", directory().string(), "' was not saved: ", error.what()));
  }
}

std::filesystem::path CheckpointManager::save(std::optional<int64_t> number) {
  wait();
  checkpoint::Contents contents = checkpoint::state_of(state_->checkpoint.objects());
  checkpoint::Folder& folder = state_->folder;
  if (!state_->async) return folder.save(contents, number);
  int64_t& next = state_->next_number;  // one process saves: the disk is asked once
  if (next == 0) next = folder.next_number();
  if (!number) number = next;
  next = std::max(next, *number + 1);
  state_->pending = std::async(std::launch::async, [&folder, contents = snapshot(std::move(contents)), number] {
    folder.save(contents, number);
  });
  return folder.path_of(*number);
}

void CheckpointManager::wait() {
  if (state_->pending.valid()) state_->pending.get();
}

std::optional<std::filesystem::path> CheckpointManager::restore_or_initialize() {
  wait();
  const auto& objects = state_->checkpoint.objects();
  return state_->folder.restore_latest([&](const checkpoint::Reader& reader) {
    const checkpoint::Differences differences = checkpoint::compare(reader, objects);
    if (!differences.none())
      throw Error(ErrorCode::failed_precondition,
                  str("restoring '", reader.folder().string(), "': ", differences.to_string(),
                      ". If that is meant, restore it with checkpoint().restore(folder).expect_partial()"));
    checkpoint::restore(reader, objects);
  });
}

std::optional<std::filesystem::path> CheckpointManager::latest_checkpoint() {
  wait();
  return state_->folder.latest();
}

std::vector<std::filesystem::path> CheckpointManager::checkpoints() {
  wait();
  std::vector<std::filesystem::path> folders;
  for (const int64_t number : state_->folder.numbers()) folders.push_back(state_->folder.path_of(number));
  return folders;
}

const Checkpoint& CheckpointManager::checkpoint() const { return state_->checkpoint; }
const std::filesystem::path& CheckpointManager::directory() const { return state_->folder.directory(); }

}  // namespace tutti::train
