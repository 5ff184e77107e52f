#pragma once

#include <filesystem>

namespace tutti::files {

// Returns when what was written to the open file, and its name in its folder, would outlive a power failure. A device
// or a pipe has nothing to wait for. Throws: unavailable.
void sync_file(int descriptor, const std::filesystem::path& path);

// The same of the names in a folder, as after a file was renamed. Throws: unavailable.
void sync_folder(const std::filesystem::path& folder);

// Where a file lies whose path may have no folder.
inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace tutti::files
