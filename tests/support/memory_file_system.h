#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tutti/checkpoint/file_system.h"

namespace tutti {

// A file system in memory that knows what a power cut would leave of it: the bytes of files at their last sync(), and
// the names in directories at their last sync_directory(); of what came later any part. For one thread.
class MemoryFileSystem final : public checkpoint::FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

  std::unique_ptr<checkpoint::WritableFile> create(const std::filesystem::path& file) override;
  std::unique_ptr<checkpoint::ReadableFile> open(const std::filesystem::path& file) override;
  void create_directory(const std::filesystem::path& directory) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void exchange(const std::filesystem::path& one, const std::filesystem::path& other) override;
  void sync_directory(const std::filesystem::path& directory) override;
  void remove(const std::filesystem::path& path) override;
  std::vector<checkpoint::DirectoryEntry> list(const std::filesystem::path& directory) const override;
  bool exists(const std::filesystem::path& path) const override;
  bool is_directory(const std::filesystem::path& path) const override;
  std::filesystem::path place_of(const std::filesystem::path& file) const override { return file; }
  std::unique_ptr<checkpoint::FileLock> try_lock(const std::filesystem::path& path) override;
  uint64_t available_bytes(const std::filesystem::path&) const override { return available; }

  // The machine stops and starts again. Of the bytes and names that were not synced, `random` says which are left.
  void power_cut(std::mt19937& random);

  // The contents of a file, to look at and to damage.
  std::string& contents(const std::filesystem::path& file);

  uint64_t available = uint64_t{1} << 40;

 private:
  struct Node;
  class Writer;
  class Source;
  class Lock;
  std::shared_ptr<Node> find(const std::filesystem::path& path) const;
  Node& require_directory(const std::filesystem::path& path) const;
  // Puts a node, or nothing, under a name; the change is not synced.
  void put(const std::filesystem::path& path, std::shared_ptr<Node> node);

  std::shared_ptr<Node> root_;
};

}  // namespace tutti
