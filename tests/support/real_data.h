#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace tutti {

// The folder TUTTI_DATA_DIR/name with a published data set; nullopt if the variable is not set or there is none. Tests
// that need one are named …OnRealData, so that a test run can tell which of them ran.
inline std::optional<std::filesystem::path> real_data(const std::string& name) {
  const char* data = std::getenv("TUTTI_DATA_DIR");
  const auto folder = std::filesystem::path(data ? data : "") / name;
  return data && std::filesystem::is_directory(folder) ? std::optional(folder) : std::nullopt;
}

// The Large Movie Review Dataset: the folder aclImdb, or else an archive of it.
inline std::optional<std::filesystem::path> imdb_source() {
  const auto folder = real_data("imdb");
  if (!folder) return std::nullopt;
  if (std::filesystem::is_directory(*folder / "aclImdb")) return *folder / "aclImdb";
  for (const auto& entry : std::filesystem::directory_iterator(*folder))
    if (entry.path().filename().string().starts_with("aclImdb")) return entry.path();
  return std::nullopt;
}

}  // namespace tutti
