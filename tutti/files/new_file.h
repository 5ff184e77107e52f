#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::files {

// A file that is written beside its place and moved there when it is whole, so that nobody ever sees half of it.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : path_(path), part_(path) {
    static std::atomic<uint64_t> number = 0;  // two of one process may write the same file
    part_ += str(".", getpid(), ".", number++, ".part");
  }
  ~NewFile() {
    std::error_code ignored;
    if (!finished_) std::filesystem::remove(part_, ignored);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Where to write.
  const std::filesystem::path& part() const { return part_; }

  // Takes the name of the finished file. Throws: unavailable.
  void finish() {
    std::error_code error;
    std::filesystem::rename(part_, path_, error);
    if (error) throw Error(ErrorCode::unavailable, str("cannot write '", path_.string(), "': ", error.message()));
    finished_ = true;
  }

 private:
  std::filesystem::path path_;
  std::filesystem::path part_;
  bool finished_ = false;
};

}  // namespace tutti::files
