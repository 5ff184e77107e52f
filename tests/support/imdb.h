#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

namespace tutti {

using Reviews = std::map<std::string, std::string>;  // path in the dataset, text

// The reviews of an unpacked dataset. `folder` is relative to `root`.
inline Reviews unpacked_reviews(const std::filesystem::path& root, const std::string& folder) {
  Reviews reviews;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    if (entry.path().extension() != ".txt") continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    reviews[entry.path().lexically_relative(root).string()] = {std::istreambuf_iterator<char>(stream), {}};
  }
  return reviews;
}

// The reviews of a tar file, whose path begins with `folder`.
inline Reviews packed_reviews(const std::filesystem::path& archive, const std::string& folder) {
  FILE* tar = popen(("xz -dc '" + archive.string() + "'").c_str(), "r");
  if (!tar) throw std::runtime_error("cannot run xz");
  Reviews reviews;
  for (std::array<char, 512> header; fread(header.data(), 1, header.size(), tar) == header.size() && header[0];) {
    const std::string path(header.data());
    const size_t size = std::stoull(std::string(&header[124], 11), nullptr, 8);
    std::string text((size + 511) / 512 * 512, '\0');  // blocks of 512 bytes
    if (fread(text.data(), 1, text.size(), tar) != text.size()) break;
    text.resize(size);
    if (path.starts_with(folder) && path.ends_with(".txt")) reviews[path] = std::move(text);
  }
  while (fgetc(tar) != EOF) {  // xz must not find its pipe closed
  }
  if (pclose(tar) != 0) throw std::runtime_error("cannot unpack " + archive.string());
  return reviews;
}

// Reviews of the Large Movie Review Dataset, by path ("aclImdb/train/pos/1_7.txt"), of those that begin with `folder`:
// from TUTTI_DATA_DIR/imdb, where it lies unpacked or as a tar.xz. nullopt if the variable is not set or there is none.
inline std::optional<Reviews> imdb_reviews(const std::string& folder) {
  const char* data = std::getenv("TUTTI_DATA_DIR");
  if (!data) return std::nullopt;
  const auto root = std::filesystem::path(data) / "imdb";
  if (std::filesystem::is_directory(root / folder)) return unpacked_reviews(root, folder);
  const auto archive = root / "aclImdb_labeled.tar.xz";
  if (!std::filesystem::exists(archive)) return std::nullopt;
  return packed_reviews(archive, folder);
}

}  // namespace tutti
