#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tutti/data/labeled_dataset.h"

namespace tutti::data {

// What the functions for directories of texts and of images have in common.
struct ClassFolderOptions {
  const char* op;                         // for errors
  std::vector<std::string> extensions;    // of the files, in lower case
  std::vector<std::string> refused = {};  // of files that would count if they could be read
  LabelMode label_mode;
  std::vector<std::string> class_names;
  int64_t batch_size;
  bool shuffle;
  std::optional<uint64_t> seed;
  double validation_split;
  std::optional<Subset> subset;
  bool verbose;
};

// The paths of the files below directory/CLASS/, with their labels; not yet batched. Source: Keras 3,
// dataset_utils.index_directory and get_training_or_validation_split.
// Throws: not_found without such a folder, classes, or files; invalid_argument for options that don't fit.
LabeledDataset<std::tuple<Strings, Tensor>> files_of_classes(const std::filesystem::path& directory,
                                                             const ClassFolderOptions& options);

// The bytes of a file. Throws: not_found, unavailable.
std::string read_file(const std::filesystem::path& path);

}  // namespace tutti::data
