#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tutti/data/labeled_dataset.h"

namespace tutti::data {

// Keras: the arguments of text_dataset_from_directory.
struct TextDirectoryOptions {
  LabelMode label_mode = LabelMode::int_;
  std::vector<std::string> class_names = {};  // the folders in another order than by name
  int64_t batch_size = 32;
  std::optional<int64_t> max_length = std::nullopt;  // in bytes: longer texts are cut, between code points of UTF-8
  bool shuffle = true;                               // all files, anew in each pass
  std::optional<uint64_t> seed = std::nullopt;
  double validation_split = 0;  // the fraction of the files that is for validation; needs subset
  std::optional<Subset> subset = std::nullopt;
  bool verbose = true;  // print how many files were found
};

// Batches of the texts in the files directory/CLASS/**.txt, Strings [batch], and their labels, [batch, …] as label_mode
// says. Files are read when they are reached. Prints "Found N files belonging to C classes.".
// Throws: not_found without such a folder, classes, or files; invalid_argument for options that don't fit.
// Keras: text_dataset_from_directory.
LabeledDataset<std::tuple<Strings, Tensor>> text_dataset_from_directory(const std::filesystem::path& directory,
                                                                        const TextDirectoryOptions& options = {});

}  // namespace tutti::data
