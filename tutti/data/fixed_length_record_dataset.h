#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "tutti/data/compression.h"
#include "tutti/data/dataset.h"

namespace tutti::data {

struct FixedLengthRecordOptions {
  int64_t header_bytes = 0;  // passed over at the beginning of each file
  int64_t footer_bytes = 0;  // passed over at its end
  Compression compression = Compression::none;
};

// What lies between header and footer of each file, cut into records of record_bytes each: scalars, one file after the
// other. Throws: invalid_argument for a number of bytes below 0, or records of none; and (when iterated) not_found,
// unavailable, data_loss for damaged compression or a file whose last record is not whole, after the whole ones.
// TF: tf.data.FixedLengthRecordDataset.
Dataset<Strings> fixed_length_record_dataset(std::vector<std::filesystem::path> files, int64_t record_bytes,
                                             const FixedLengthRecordOptions& options = {});

}  // namespace tutti::data
