#pragma once

#include <filesystem>
#include <tuple>

#include "tutti/data/dataset.h"

namespace tutti::data {

// Pairs of an image, uint8 [28, 28, 1], and its label, int64 [].
struct Mnist {
  Dataset<std::tuple<Tensor, Tensor>> train;
  Dataset<std::tuple<Tensor, Tensor>> test;
};

// MNIST, or a data set in its form, from the four IDX files in a folder, each plain or with the ending .gz. The images
// are read into memory as they are (55 MB). TF: tf.keras.datasets.mnist.load_data. Throws: not_found if the folder or a
// file is missing, data_loss if one is damaged or they don't fit together.
Mnist load_mnist(const std::filesystem::path& folder);

}  // namespace tutti::data
