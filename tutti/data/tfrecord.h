#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "tutti/data/compressed_file_writer.h"
#include "tutti/data/dataset.h"

namespace tutti::data {

struct TFRecordOptions {
  Compression compression = Compression::none;
  int compression_level = -1;  // of a writer: 0 (none) to 9 (smallest), or -1 for zlib's default
};

// Writes a file of records, byte for byte as tf.io.TFRecordWriter does: each as its length (8 bytes, little-endian),
// the masked CRC-32C of that (4 bytes), its bytes, and their masked CRC-32C. What the file held before is lost. Throws,
// from every member but the destructor: not_found for a folder that does not exist, unavailable where the system
// refuses to write, failed_precondition after that, or after close(). TF: tf.io.TFRecordWriter.
class TFRecordWriter {
 public:
  explicit TFRecordWriter(const std::filesystem::path& path, const TFRecordOptions& options = {});

  void write(std::string_view record);
  // After this a reader sees all records, also in a compressed file, which gets a little larger by it.
  void flush() { file_.flush(); }
  // Ends the file, as the destructor does, and returns when it is on the disk; only this reports when that fails.
  void close() { file_.close(); }

 private:
  CompressedFileWriter file_;
};

// The records of files, one file after the other, each a scalar. Files are opened when they are reached; their
// iterators can be saved. Throws (when iterated): not_found, unavailable, and data_loss for a record that is truncated
// or whose checksum is wrong; the text says which record, where, and both checksums. TF: tf.data.TFRecordDataset, for
// which a file that ends inside the first 12 bytes of a record is whole.
Dataset<Strings> tfrecord_dataset(std::vector<std::filesystem::path> files, const TFRecordOptions& options = {});

}  // namespace tutti::data
