#pragma once

#include <filesystem>

#include "tutti/keras/callbacks/callback.h"

namespace tutti::keras::callbacks {

struct CSVLoggerOptions {
  std::filesystem::path filename = {};  // required
  char separator = ',';
  bool append = false;  // to what the file holds; else it is overwritten
};

// Writes the numbers of each epoch as a line of a CSV file: the epoch, then the logs by name, "NA" for what is missing.
// Without validation in the first epoch there are columns "val_…" too. Numbers are written with the fewest digits that
// read back as them, fields are quoted where they must be, lines end with "\r\n" (RFC 4180); each is in the file when
// its epoch has ended. Throws from fit: unavailable where the file cannot be written.
// TF: tf.keras.callbacks.CSVLogger
class CSVLogger : public Callback {
 public:
  // Throws: invalid_argument for an empty filename, or a quote or the end of a line as the separator.
  explicit CSVLogger(const CSVLoggerOptions& options);
};

}  // namespace tutti::keras::callbacks
