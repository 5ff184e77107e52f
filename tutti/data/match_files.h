#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tutti/data/dataset.h"

namespace tutti::data {

// The files that a pattern matches, sorted by their bytes: * stands for any text and ? for any character without '/',
// [abc] for one of these. Folders don't count. Throws: not_found if there is none, invalid_argument for an empty
// pattern, unavailable if a folder cannot be read. TF: tf.io.gfile.glob.
std::vector<std::filesystem::path> match_files(const std::string& pattern);
// Those of several patterns, one pattern after the other.
std::vector<std::filesystem::path> match_files(const std::vector<std::string>& patterns);

struct ListFilesOptions {
  bool shuffle = false;  // another order in each pass
  std::optional<uint64_t> seed = std::nullopt;
};

// The names of these files, Strings []. TF: Dataset.list_files, but sorted unless it is to be shuffled.
// Throws: as match_files; invalid_argument for a seed without shuffle.
Dataset<Strings> list_files(const std::string& pattern, const ListFilesOptions& options = {});

}  // namespace tutti::data
