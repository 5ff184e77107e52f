#include "tutti/checkpoint/folder.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "tutti/checkpoint/checkpoint_list.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ckpt-";

// The number in "ckpt-7"; empty for any other name.
std::optional<int64_t> number_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  const std::string_view digits = std::string_view(name).substr(kPrefix.size());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || number < 0 || name != str(kPrefix, std::to_string(number))) return {};
  return number;
}

// Whether this is work in progress of a save or of a deletion, or what is left of one.
bool is_leftover(const std::string& name) {
  const auto stem = temporary_stem(name);
  return stem && (*stem == kListName || number_of(*stem));
}

// Runs what may fail without harm to the checkpoint that was saved.
template <class F>
bool attempt(const std::string& what, F f) {
  try {
    f();
    return true;
  } catch (const Error& error) {
    warn(str("checkpoint: ", what, ": ", error.what()));
    return false;
  }
}

void remove_checkpoint(FileSystem& files, const fs::path& path) {
  if (!is_checkpoint(files, path))
    throw Error(ErrorCode::failed_precondition, str("'", path.string(), "' is no checkpoint; move it away"));
  const fs::path doomed = fs::path(path) += temporary_suffix();
  files.rename(path, doomed);  // a deletion that does not come to its end leaves no half checkpoint
  files.sync_directory(directory_of(path));
  remove_tree(files, doomed);
}

}  // namespace

Folder::Folder(FileSystem& files, fs::path directory, Retention retention,
               std::function<std::chrono::system_clock::time_point()> now)
    : files_(files),
      directory_(directory.has_filename() ? std::move(directory) : directory.parent_path()),
      retention_(retention),
      now_(std::move(now)) {
  if (retention.max_to_keep.value_or(1) < 1 || retention.keep_every < std::chrono::seconds::zero() ||
      retention.keep_multiples_of < 0)
    throw Error(ErrorCode::invalid_argument,
                str("checkpoint: max_to_keep is ", retention.max_to_keep.value_or(1), ", keep_every ",
                    retention.keep_every.count(), " s, keep_multiples_of ", retention.keep_multiples_of,
                    "; at least 1, 0 and 0 are required. std::nullopt for max_to_keep keeps all"));
}

fs::path Folder::path_of(int64_t number) const { return directory_ / str(kPrefix, std::to_string(number)); }

// The list, brought up to date with what is there.
CheckpointList Folder::list() const {
  if (!files_.exists(directory_)) return {};
  std::vector<int64_t> found;
  for (const DirectoryEntry& entry : files_.list(directory_))
    if (const auto number = number_of(entry.name);
        number && (entry.is_directory || files_.exists(directory_ / entry.name / kIndexName)))  // or a link to one
      found.push_back(*number);
  CheckpointList list;
  bool damaged = false;
  if (const fs::path file = directory_ / kListName; files_.exists(file)) {
    try {
      list = parse_list(read_text(files_, file, kMaxListBytes), str("checkpoint: '", file.string(), "'"));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::data_loss) throw;
      warn(str(error.what(),
               ". It lists the checkpoints; they are taken in the order of their numbers, and none of them "
               "is deleted from now on"));
      damaged = true;
    }
  }
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(now_().time_since_epoch());
  list.reconcile(found, now.count(), damaged);
  return list;
}

std::vector<int64_t> Folder::numbers() const {
  std::vector<int64_t> numbers;
  for (const ListedCheckpoint& checkpoint : list().checkpoints) numbers.push_back(checkpoint.number);
  return numbers;
}

std::optional<fs::path> Folder::latest() const {
  const CheckpointList all = list();
  if (all.checkpoints.empty()) return {};
  return path_of(all.checkpoints.back().number);
}

void Folder::check_number(int64_t number) {
  if (number < 0 || number > kMaxNumber)
    throw Error(ErrorCode::invalid_argument, str("checkpoint: a checkpoint can't have the number ", number,
                                                 "; it must be at least 0, and one more must be a number too"));
}

// A process that was killed may have made it, and not have come to sync its name.
void Folder::make_directory() {
  create_directories(files_, directory_);
  if (!is_synced_) files_.sync_directory(directory_of(directory_));
  is_synced_ = true;
}

std::unique_ptr<FileLock> Folder::lock() {
  make_directory();
  const fs::path file = directory_ / kLockName;
  if (!files_.exists(file)) try {
      files_.create(file);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::already_exists) throw;  // somebody else was faster
    }
  if (auto lock = files_.try_lock(file)) return lock;
  throw Error(ErrorCode::failed_precondition,
              str("checkpoint: '", directory_.string(),
                  "' is saved to by another manager, of this or another process. One at a time may save: drop the "
                  "other first, or give this one a directory of its own"));
}

fs::path Folder::save(const Contents& contents, std::optional<int64_t> number, const WriteOptions& options) {
  if (number) check_number(*number);
  make_directory();
  attempt("what a process that was killed left behind could not be removed", [&] { remove_leftovers(); });
  CheckpointList all = list();
  if (!number) number = all.next_number();
  const fs::path path = path_of(*number);
  write(files_, path, contents, options);

  const auto now = std::chrono::duration_cast<std::chrono::seconds>(now_().time_since_epoch());
  all.add({.number = *number, .saved_at = now.count()});
  const std::vector<int64_t> doomed = all.expire(retention_);
  const bool listed = attempt("the list of checkpoints could not be written; all are kept", [&] {
    const std::string text = list_text(all);
    replace_file(files_, directory_ / kListName,
                 [&](WritableFile& file) { file.write(std::as_bytes(std::span(text))); });
  });
  if (!doomed.empty()) Reader(files_, path);  // only what can be opened takes the place of another
  for (const int64_t old : doomed)
    if (listed) attempt("an old checkpoint could not be deleted", [&] { remove_checkpoint(files_, path_of(old)); });
  return path;
}

std::optional<fs::path> Folder::restore_latest(const std::function<void(const Reader&)>& restore) const {
  const std::vector<int64_t> all = numbers();
  std::string damage;
  for (auto number = all.rbegin(); number != all.rend(); ++number) {
    const fs::path path = path_of(*number);
    try {
      restore(Reader(files_, path));
      if (!damage.empty()) warn(str("restored '", path.string(), "' in the place of a newer checkpoint", damage));
      return path;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::data_loss) throw;
      damage += str("; ", error.what());
    }
  }
  if (!damage.empty())
    throw Error(ErrorCode::data_loss, str("no checkpoint of '", directory_.string(), "' can be restored", damage,
                                          ". To start anew, move them away"));
  return {};
}

void Folder::remove_leftovers() {
  if (!files_.exists(directory_)) return;
  for (const DirectoryEntry& entry : files_.list(directory_))
    if (is_leftover(entry.name)) remove_tree(files_, directory_ / entry.name);
}

}  // namespace tutti::checkpoint
