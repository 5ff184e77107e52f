#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/core/function_ref.h"

namespace tutti::checkpoint {

// A file being written from its beginning to its end. What was not synced may be lost when the machine stops.
class WritableFile {
 public:
  virtual ~WritableFile() = default;  // closes; what is not synced is in the system's hands

  // Appends all of `bytes`. After an error the file is worthless.
  virtual void write(std::span<const std::byte> bytes) = 0;
  // Returns when the contents, not the name, are on the device. After an error nothing is known about what was written.
  virtual void sync() = 0;
};

// A file being read. Threads: any number at once.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  virtual uint64_t size() const = 0;  // bytes, when it was opened
  // Fills `bytes` from `offset` on. Throws: data_loss where the file ends before, or the device cannot read it any more
  // (EIO).
  virtual void read(uint64_t offset, std::span<std::byte> bytes) const = 0;
  // The same into several places, one after the other.
  virtual void read_parts(uint64_t offset, std::span<const std::span<std::byte>> parts) const;
};

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;  // not of a link to one
  bool operator==(const DirectoryEntry&) const = default;
};

// Held while it lives, and not longer than its process.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

// The one way from checkpoints to a disk, so that tests can stand in for a disk that fails. All functions throw
// not_found for a path that does not exist, already_exists where something is in the way, resource_exhausted where no
// room is left, and unavailable for other errors of the system; the text has the path and the system's words.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The file must not exist. It is locked while it is written.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& file) = 0;
  // The same, for a large file that is written while others compute: past the system's cache where the disk can do
  // that, which takes less of the processors, and longer.
  virtual std::unique_ptr<WritableFile> create_uncached(const std::filesystem::path& file) { return create(file); }
  virtual std::unique_ptr<ReadableFile> open(const std::filesystem::path& file) = 0;
  // The parent must exist, the directory must not.
  virtual void create_directory(const std::filesystem::path& directory) = 0;
  // Atomic. A file replaces a file of the new name; a directory must meet none.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // Swaps two directories in one atomic step. Throws: unimplemented where the file system of the disk can't.
  virtual void exchange(const std::filesystem::path& one, const std::filesystem::path& other) = 0;
  // Returns when what was created, renamed and removed in the directory is on the device.
  virtual void sync_directory(const std::filesystem::path& directory) = 0;
  // Of a file, of an empty directory, or of a link, but not of what it leads to.
  virtual void remove(const std::filesystem::path& path) = 0;
  // By name. Throws: not_found.
  virtual std::vector<DirectoryEntry> list(const std::filesystem::path& directory) const = 0;
  // Also of a link that leads nowhere.
  virtual bool exists(const std::filesystem::path& path) const = 0;
  // Not of a link to one.
  virtual bool is_directory(const std::filesystem::path& path) const = 0;
  // Where a file of this name is to be written: what links lead to. Throws: invalid_argument for what is there and no
  // plain file, which must not be replaced by one.
  virtual std::filesystem::path place_of(const std::filesystem::path& file) const = 0;
  // The lock of a file or directory that exists; null while somebody has it, be it in this process.
  virtual std::unique_ptr<FileLock> try_lock(const std::filesystem::path& path) = 0;
  // Bytes that can still be written below the directory.
  virtual uint64_t available_bytes(const std::filesystem::path& directory) const = 0;
};

// The disks of this machine.
FileSystem& posix_file_system();

// Creates the directory and those above it that are missing, and syncs their parents.
void create_directories(FileSystem& files, const std::filesystem::path& directory);
// Removes what is there: a directory with all that is in it, but of links nothing that they lead to.
void remove_tree(FileSystem& files, const std::filesystem::path& path);
// The whole file. Throws: data_loss for more than `max_bytes`.
std::string read_text(FileSystem& files, const std::filesystem::path& file, uint64_t max_bytes);
// Replaces the file in one atomic step that survives a power cut: a temporary file beside it, synced, renamed. A link
// stays, and what it leads to is replaced. Throws: as FileSystem::place_of().
void replace_file(FileSystem& files, const std::filesystem::path& file, FunctionRef<void(WritableFile& file)> fill);

// The directory that a path is in; "." for a name alone.
std::filesystem::path directory_of(const std::filesystem::path& path);

// ".tmp-" and 16 random hexadecimal digits: the end of each name that holds work in progress, or what a killed process
// left.
std::string temporary_suffix();
bool is_temporary(const std::string& name);
// The name that it will have; nothing for a name that is not temporary.
std::optional<std::string> temporary_stem(const std::string& name);
// Removes what killed processes left of writing `path`: names with such an end that nobody has locked. What cannot be
// removed stays.
void remove_abandoned(FileSystem& files, const std::filesystem::path& path);

}  // namespace tutti::checkpoint
