#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tutti::checkpoint {

struct Retention;

inline constexpr const char* kListName = "checkpoint";
inline constexpr const char* kLockName = ".lock";     // an empty file; who saves has locked it
inline constexpr int64_t kMaxNumber = INT64_MAX - 1;  // of a checkpoint
inline constexpr uint64_t kMaxListBytes = uint64_t{1} << 26;

struct ListedCheckpoint {
  int64_t number = 0;
  int64_t saved_at = 0;  // seconds since 1970
  bool kept = false;     // for ever
  bool operator==(const ListedCheckpoint&) const = default;
};

// What the file `checkpoint` says (docs/checkpoint_format.md): the checkpoints in the order in which they were saved.
// TF: CheckpointState.
struct CheckpointList {
  std::vector<ListedCheckpoint> checkpoints;  // the last one is the latest
  int64_t last_preserved_at = 0;              // when the last one was saved that Retention::keep_every has kept
  bool operator==(const CheckpointList&) const = default;

  // Drops those that are not among `found`, and takes in those of `found` that are not listed. These were saved by a
  // process that did not come to list them: they are the newest if their number is above the latest's, else the oldest.
  // They count as saved `now` and, where `damage` has taken the list, as kept.
  void reconcile(std::span<const int64_t> found, int64_t now, bool damage);
  // One more than the largest number, at least 1. Throws: failed_precondition where that would be above kMaxNumber.
  int64_t next_number() const;
  // Makes this the latest.
  void add(ListedCheckpoint checkpoint);
  // Those that are not to be kept; they stay listed as long as they exist. Marks those that are kept for ever.
  std::vector<int64_t> expire(const Retention& retention);
};

std::string list_text(const CheckpointList& list);
// `source` names the text in messages. Throws: data_loss for anything that list_text() does not return; unimplemented
// for a later version.
CheckpointList parse_list(std::string text, const std::string& source);

}  // namespace tutti::checkpoint
