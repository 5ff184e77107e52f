#pragma once

#include <filesystem>

namespace tutti::files {

// A file that is written beside its place and moved there when it is whole, so that nobody ever sees half of it. The
// place of a link is where it leads to. A device or a pipe is written to as it is. A file that was there gives the new
// one its permissions. What killed writers of that place left is removed.
class NewFile {
 public:
  // Throws: unavailable, as where there is no such folder, or one is in the place.
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Where to write: an empty file, or the device.
  const std::filesystem::path& part() const { return part_; }

  // Takes the name of the finished file, which was closed, when all of it is on the disk. Throws: unavailable.
  void finish();

 private:
  void create();

  std::filesystem::path path_;
  std::filesystem::path part_;
  int descriptor_ = -1;  // of the part, which it locks against its removal by others; -1 for a device
};

}  // namespace tutti::files
