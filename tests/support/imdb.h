#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace tutti {

// The Large Movie Review Dataset in TUTTI_DATA_DIR/imdb: the folder aclImdb, or else an archive of it. nullopt if the
// variable is not set or there is neither.
inline std::optional<std::filesystem::path> imdb_source() {
  const char* data = std::getenv("TUTTI_DATA_DIR");
  const auto folder = std::filesystem::path(data ? data : "") / "imdb";
  if (!data || !std::filesystem::is_directory(folder)) return std::nullopt;
  if (std::filesystem::is_directory(folder / "aclImdb")) return folder / "aclImdb";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("aclImdb")) return entry.path();
  return std::nullopt;
}

}  // namespace tutti
