#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tutti/checkpoint/file_system.h"

namespace tutti {

enum class FileOperation { create, write, sync, open, read, create_directory, rename, sync_directory, remove, list };

// Another file system whose every operation first calls a function, which may throw in its place, or end the process.
// Each write is made in two halves: the function can come between them.
class HookedFileSystem final : public checkpoint::FileSystem {
 public:
  using Hook = std::function<void(FileOperation)>;
  HookedFileSystem(FileSystem& files, Hook hook) : files_(files), hook_(std::move(hook)) {}

  std::unique_ptr<checkpoint::WritableFile> create(const std::filesystem::path& file) override {
    hook_(FileOperation::create);
    return std::make_unique<Writer>(files_.create(file), hook_);
  }
  std::unique_ptr<checkpoint::ReadableFile> open(const std::filesystem::path& file) override {
    hook_(FileOperation::open);
    return std::make_unique<Source>(files_.open(file), hook_);
  }
  void create_directory(const std::filesystem::path& directory) override {
    hook_(FileOperation::create_directory);
    files_.create_directory(directory);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    hook_(FileOperation::rename);
    files_.rename(from, to);
  }
  void exchange(const std::filesystem::path& one, const std::filesystem::path& other) override {
    hook_(FileOperation::rename);
    files_.exchange(one, other);
  }
  void sync_directory(const std::filesystem::path& directory) override {
    hook_(FileOperation::sync_directory);
    files_.sync_directory(directory);
  }
  void remove(const std::filesystem::path& path) override {
    hook_(FileOperation::remove);
    files_.remove(path);
  }
  std::vector<checkpoint::DirectoryEntry> list(const std::filesystem::path& directory) const override {
    hook_(FileOperation::list);
    return files_.list(directory);
  }
  bool exists(const std::filesystem::path& path) const override { return files_.exists(path); }
  bool is_directory(const std::filesystem::path& path) const override { return files_.is_directory(path); }
  std::filesystem::path place_of(const std::filesystem::path& file) const override { return files_.place_of(file); }
  std::unique_ptr<checkpoint::FileLock> try_lock(const std::filesystem::path& path) override {
    return files_.try_lock(path);
  }
  uint64_t available_bytes(const std::filesystem::path& directory) const override {
    return files_.available_bytes(directory);
  }

 private:
  class Writer final : public checkpoint::WritableFile {
   public:
    Writer(std::unique_ptr<WritableFile> file, const Hook& hook) : file_(std::move(file)), hook_(hook) {}
    void write(std::span<const std::byte> bytes) override {
      hook_(FileOperation::write);
      file_->write(bytes.first(bytes.size() / 2));
      hook_(FileOperation::write);
      file_->write(bytes.subspan(bytes.size() / 2));
    }
    void sync() override {
      hook_(FileOperation::sync);
      file_->sync();
    }

   private:
    std::unique_ptr<WritableFile> file_;
    const Hook& hook_;
  };

  class Source final : public checkpoint::ReadableFile {
   public:
    Source(std::unique_ptr<ReadableFile> file, const Hook& hook) : file_(std::move(file)), hook_(hook) {}
    uint64_t size() const override { return file_->size(); }
    void read(uint64_t offset, std::span<std::byte> bytes) const override {
      hook_(FileOperation::read);
      file_->read(offset, bytes);
    }

   private:
    std::unique_ptr<ReadableFile> file_;
    const Hook& hook_;
  };

  FileSystem& files_;
  Hook hook_;
};

}  // namespace tutti
