#include "tests/support/memory_file_system.h"

#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

namespace fs = std::filesystem;
using checkpoint::DirectoryEntry;
using checkpoint::ReadableFile;
using checkpoint::WritableFile;

struct MemoryFileSystem::Node {
  using Entries = std::map<std::string, std::shared_ptr<Node>>;
  struct Change {
    std::string name;
    std::shared_ptr<Node> node;  // null: removed
  };

  bool is_directory = false;
  std::string bytes, synced_bytes;
  Entries entries, synced_entries;
  std::vector<std::vector<Change>> changes;  // since the last sync; those of one operation together
  bool is_locked = false;
};

class MemoryFileSystem::Lock final : public checkpoint::FileLock {
 public:
  explicit Lock(std::shared_ptr<Node> node) : node_(std::move(node)) { node_->is_locked = true; }
  ~Lock() override { node_->is_locked = false; }

 private:
  std::shared_ptr<Node> node_;
};

class MemoryFileSystem::Writer final : public WritableFile {
 public:
  explicit Writer(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  void write(std::span<const std::byte> bytes) override {
    node_->bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void sync() override { node_->synced_bytes = node_->bytes; }

 private:
  std::shared_ptr<Node> node_;
};

class MemoryFileSystem::Source final : public ReadableFile {
 public:
  explicit Source(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  uint64_t size() const override { return node_->bytes.size(); }
  void read(uint64_t offset, std::span<std::byte> bytes) const override {
    if (offset > size() || bytes.size() > size() - offset) throw Error(ErrorCode::data_loss, "the file ends before");
    if (!bytes.empty()) std::memcpy(bytes.data(), node_->bytes.data() + offset, bytes.size());
  }

 private:
  std::shared_ptr<Node> node_;
};

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<Node>()) { root_->is_directory = true; }
MemoryFileSystem::~MemoryFileSystem() = default;

std::shared_ptr<MemoryFileSystem::Node> MemoryFileSystem::find(const fs::path& path) const {
  std::shared_ptr<Node> node = root_;
  for (const fs::path& part : path) {
    if (part == "/" || part == "." || part.empty()) continue;
    if (!node->is_directory) return nullptr;
    const auto found = node->entries.find(part.string());
    if (found == node->entries.end()) return nullptr;
    node = found->second;
  }
  return node;
}

MemoryFileSystem::Node& MemoryFileSystem::require_directory(const fs::path& path) const {
  const auto node = find(path);
  if (!node || !node->is_directory) throw Error(ErrorCode::not_found, str("no directory '", path.string(), "'"));
  return *node;
}

void MemoryFileSystem::put(const fs::path& path, std::shared_ptr<Node> node) {
  Node& directory = require_directory(path.parent_path());
  const std::string name = path.filename().string();
  directory.changes.push_back({{name, node}});
  if (node)
    directory.entries[name] = std::move(node);
  else
    directory.entries.erase(name);
}

std::unique_ptr<WritableFile> MemoryFileSystem::create(const fs::path& file) {
  if (find(file)) throw Error(ErrorCode::already_exists, str("'", file.string(), "' exists"));
  auto node = std::make_shared<Node>();
  put(file, node);
  return std::make_unique<Writer>(std::move(node));
}

std::unique_ptr<ReadableFile> MemoryFileSystem::open(const fs::path& file) {
  auto node = find(file);
  if (!node) throw Error(ErrorCode::not_found, str("no file '", file.string(), "'"));
  if (node->is_directory) throw Error(ErrorCode::unavailable, str("'", file.string(), "' is a directory"));
  return std::make_unique<Source>(std::move(node));
}

void MemoryFileSystem::create_directory(const fs::path& directory) {
  if (find(directory)) throw Error(ErrorCode::already_exists, str("'", directory.string(), "' exists"));
  auto node = std::make_shared<Node>();
  node->is_directory = true;
  put(directory, std::move(node));
}

void MemoryFileSystem::rename(const fs::path& from, const fs::path& to) {
  const auto node = find(from);
  if (!node) throw Error(ErrorCode::not_found, str("no '", from.string(), "'"));
  const auto other = find(to);
  if (other && (other->is_directory || node->is_directory))
    throw Error(ErrorCode::already_exists, str("'", to.string(), "' exists"));
  if (from.parent_path() != to.parent_path()) throw Error(ErrorCode::unimplemented, "a rename to another directory");
  put(to, node);
  put(from, nullptr);
  auto& changes = require_directory(to.parent_path()).changes;  // both at once
  changes[changes.size() - 2].push_back(changes.back()[0]);
  changes.pop_back();
}

void MemoryFileSystem::exchange(const fs::path& one, const fs::path& other) {
  const auto first = find(one), second = find(other);
  if (!first || !second) throw Error(ErrorCode::not_found, str("no '", one.string(), "' or no '", other.string(), "'"));
  put(one, second);
  put(other, first);
  auto& changes = require_directory(one.parent_path()).changes;  // both at once
  changes[changes.size() - 2].push_back(changes.back()[0]);
  changes.pop_back();
}

void MemoryFileSystem::sync_directory(const fs::path& directory) {
  Node& node = require_directory(directory);
  node.synced_entries = node.entries;
  node.changes.clear();
}

void MemoryFileSystem::remove(const fs::path& path) {
  const auto node = find(path);
  if (!node) throw Error(ErrorCode::not_found, str("no '", path.string(), "'"));
  if (!node->entries.empty()) throw Error(ErrorCode::already_exists, str("'", path.string(), "' is not empty"));
  put(path, nullptr);
}

std::vector<DirectoryEntry> MemoryFileSystem::list(const fs::path& directory) const {
  std::vector<DirectoryEntry> entries;
  for (const auto& [name, node] : require_directory(directory).entries) entries.push_back({name, node->is_directory});
  return entries;
}

bool MemoryFileSystem::exists(const fs::path& path) const { return find(path) != nullptr; }

bool MemoryFileSystem::is_directory(const fs::path& path) const {
  const auto node = find(path);
  return node && node->is_directory;
}

std::unique_ptr<checkpoint::FileLock> MemoryFileSystem::try_lock(const fs::path& path) {
  auto node = find(path);
  if (!node) throw Error(ErrorCode::not_found, str("no '", path.string(), "'"));
  return node->is_locked ? nullptr : std::make_unique<Lock>(std::move(node));
}

void MemoryFileSystem::power_cut(std::mt19937& random) {
  std::vector<Node*> left{root_.get()};
  while (!left.empty()) {
    Node& node = *left.back();
    left.pop_back();
    if (!node.is_directory) {
      std::string bytes = node.synced_bytes;
      if (node.bytes.size() > bytes.size()) {  // some of the rest came through, or its length alone
        std::string rest = node.bytes.substr(bytes.size(), random() % (node.bytes.size() - bytes.size() + 1));
        if (random() % 2 == 0) rest.assign(rest.size(), '\0');
        bytes += rest;
      }
      node.bytes = node.synced_bytes = std::move(bytes);
      continue;
    }
    node.entries = node.synced_entries;
    const size_t survived = random() % (node.changes.size() + 1);
    for (size_t i = 0; i < survived; ++i)
      for (const auto& [name, entry] : node.changes[i]) {
        if (entry)
          node.entries[name] = entry;
        else
          node.entries.erase(name);
      }
    node.synced_entries = node.entries;
    node.changes.clear();
    for (const auto& [name, entry] : node.entries) left.push_back(entry.get());
  }
}

std::string& MemoryFileSystem::contents(const fs::path& file) {
  const auto node = find(file);
  if (!node) throw Error(ErrorCode::not_found, str("no file '", file.string(), "'"));
  return node->bytes;
}

}  // namespace tutti
