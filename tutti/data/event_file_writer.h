#pragma once

#include <filesystem>

#include "tutti/data/event.h"
#include "tutti/data/tfrecord.h"

namespace tutti::data {

// Writes a file of events for TensorBoard into a folder, which is made if need be:
// events.out.tfevents.<seconds>.<host>.<process>.<number>.v2, a name of its own. Throws, from every member but the
// destructor: as TFRecordWriter. TF: tf.summary.create_file_writer.
class EventFileWriter {
 public:
  explicit EventFileWriter(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }

  void write(const Event& event) { file_.write(event.serialize()); }
  void flush() { file_.flush(); }
  void close() { file_.close(); }

 private:
  std::filesystem::path path_;
  TFRecordWriter file_;
};

}  // namespace tutti::data
