#include "tutti/checkpoint/file_system.h"

#include <random>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp-";
constexpr size_t kSuffixDigits = 16;
constexpr std::string_view kSuffixAlphabet = "0123456789abcdef";

// What could not be finished is of no use; the error that is under way says more than one from here.
void remove_if_possible(FileSystem& files, const fs::path& file) {
  try {
    if (files.exists(file)) files.remove(file);
  } catch (const Error&) {
  }
}

}  // namespace

void ReadableFile::read_parts(uint64_t offset, std::span<const std::span<std::byte>> parts) const {
  for (const std::span<std::byte> part : parts) {
    read(offset, part);
    offset += part.size();
  }
}

void create_directories(FileSystem& files, const fs::path& directory) {
  if (directory.empty() || files.exists(directory)) return;
  if (!directory.has_filename()) return create_directories(files, directory.parent_path());
  create_directories(files, directory.parent_path());
  files.create_directory(directory);
  files.sync_directory(directory_of(directory));
}

void remove_tree(FileSystem& files, const fs::path& path) {
  if (files.is_directory(path))
    for (const DirectoryEntry& entry : files.list(path)) remove_tree(files, path / entry.name);
  files.remove(path);
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

void replace_file(FileSystem& files, const fs::path& file, FunctionRef<void(WritableFile&)> fill) {
  const fs::path place = files.place_of(file);
  remove_abandoned(files, place);
  const fs::path temporary = fs::path(place) += temporary_suffix();
  try {
    const auto out = files.create(temporary);
    fill(*out);
    out->sync();
    files.rename(temporary, place);
  } catch (const Error&) {
    remove_if_possible(files, temporary);
    throw;
  }
  files.sync_directory(directory_of(place));
}

fs::path directory_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

std::string temporary_suffix() {
  std::random_device random;
  std::string suffix(kTemporary);
  for (size_t i = 0; i < kSuffixDigits; ++i) suffix += kSuffixAlphabet[random() % kSuffixAlphabet.size()];
  return suffix;
}

std::optional<std::string> temporary_stem(const std::string& name) {
  if (name.size() < kTemporary.size() + kSuffixDigits) return {};
  const size_t length = name.size() - kTemporary.size() - kSuffixDigits;
  const std::string_view suffix = std::string_view(name).substr(length);
  if (!suffix.starts_with(kTemporary) ||
      suffix.find_first_not_of(kSuffixAlphabet, kTemporary.size()) != std::string_view::npos)
    return {};
  return name.substr(0, length);
}

bool is_temporary(const std::string& name) { return temporary_stem(name).has_value(); }

void remove_abandoned(FileSystem& files, const fs::path& path) {
  const auto if_possible = [](auto f) {
    try {
      f();
    } catch (const Error&) {  // somebody else's, or removed by somebody else
    }
  };
  std::vector<DirectoryEntry> entries;
  if_possible([&] { entries = files.list(directory_of(path)); });
  for (const DirectoryEntry& entry : entries) {
    if (temporary_stem(entry.name) != path.filename().string()) continue;
    const fs::path left = directory_of(path) / entry.name;
    if_possible([&] {
      if (const auto lock = files.try_lock(left)) remove_tree(files, left);
    });
  }
}

}  // namespace tutti::checkpoint
