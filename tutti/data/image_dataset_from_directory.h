#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tutti/data/labeled_dataset.h"

namespace tutti::data {

enum class ColorMode { grayscale, rgb, rgba };

// Keras: the arguments of image_dataset_from_directory.
struct ImageDirectoryOptions {
  LabelMode label_mode = LabelMode::int_;
  std::vector<std::string> class_names = {};  // the folders in another order than by name
  ColorMode color_mode = ColorMode::rgb;
  int64_t batch_size = 32;
  std::array<int64_t, 2> image_size = {256, 256};  // height and width
  bool shuffle = true;                             // all files, anew in each pass
  std::optional<uint64_t> seed = std::nullopt;
  double validation_split = 0;  // the fraction of the files that is for validation; needs subset
  std::optional<Subset> subset = std::nullopt;
  int num_parallel_calls = 0;  // how many threads decode, in order all the same; 0: one for each core
  bool verbose = true;         // print how many files were found
};

// Batches of the images in the files directory/CLASS/**.{jpg,jpeg,png}, float32 [batch, height, width, channels] from 0
// to 255, and their labels, [batch, …] as label_mode says. Images of other sizes are resized, see resize_image. Files
// are read when they are reached. Prints "Found N files belonging to C classes.".
// Throws: not_found without such a folder, classes, or files; unimplemented for .gif and .bmp files; invalid_argument
// for options that don't fit; when iterated, what decode_image throws. Keras: image_dataset_from_directory.
LabeledDataset<std::tuple<Tensor, Tensor>> image_dataset_from_directory(const std::filesystem::path& directory,
                                                                        const ImageDirectoryOptions& options = {});

}  // namespace tutti::data
