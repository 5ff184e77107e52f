#pragma once

#include <filesystem>
#include <vector>

#include "tutti/data/dataset.h"

namespace tutti::data {

// The lines of text files, one file after the other, without their ends ("\n" or "\r\n"); gzip-compressed files are
// read as what they hold. Files are opened when they are reached. Throws (when iterated): not_found, unavailable,
// data_loss for damaged compression, or a line of more than 1 GB. TF: tf.data.TextLineDataset.
Dataset<Strings> text_line_dataset(std::vector<std::filesystem::path> files);

}  // namespace tutti::data
