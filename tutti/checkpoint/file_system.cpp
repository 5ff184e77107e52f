#include "tutti/checkpoint/file_system.h"

#include <random>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp-";
constexpr size_t kDigits = 16;
constexpr std::string_view kHexadecimal = "0123456789abcdef";

}  // namespace

void create_directories(FileSystem& files, const fs::path& directory) {
  if (directory.empty() || files.exists(directory)) return;
  if (!directory.has_filename()) return create_directories(files, directory.parent_path());
  create_directories(files, directory.parent_path());
  files.create_directory(directory);
  files.sync_directory(directory_of(directory));
}

void remove_tree(FileSystem& files, const fs::path& directory) {
  for (const DirectoryEntry& entry : files.list(directory)) {
    if (entry.is_directory)
      remove_tree(files, directory / entry.name);
    else
      files.remove(directory / entry.name);
  }
  files.remove(directory);
}

std::string read_text(FileSystem& files, const fs::path& file, uint64_t max_bytes) {
  const auto open = files.open(file);
  if (open->size() > max_bytes)
    throw Error(ErrorCode::data_loss,
                str("'", file.string(), "' has ", open->size(), " bytes; at most ", max_bytes, " are expected"));
  std::string text(open->size(), '\0');
  open->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void replace_file(FileSystem& files, const fs::path& file, const std::string& text) {
  fs::path temporary = file;
  temporary += temporary_suffix();
  {
    const auto out = files.create(temporary);
    out->write(std::as_bytes(std::span(text)));
    out->sync();
  }
  files.rename(temporary, file);
  files.sync_directory(directory_of(file));
}

fs::path directory_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

std::string temporary_suffix() {
  std::random_device random;
  std::string suffix(kTemporary);
  for (size_t i = 0; i < kDigits; ++i) suffix += kHexadecimal[random() % kHexadecimal.size()];
  return suffix;
}

bool is_temporary(const std::string& name) {
  if (name.size() < kTemporary.size() + kDigits) return false;
  const std::string_view suffix = std::string_view(name).substr(name.size() - kTemporary.size() - kDigits);
  return suffix.starts_with(kTemporary) &&
         suffix.find_first_not_of(kHexadecimal, kTemporary.size()) == std::string_view::npos;
}

}  // namespace tutti::checkpoint
