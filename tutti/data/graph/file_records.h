#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "tutti/data/graph/node.h"

namespace tutti::data::graph {

// The records of one file, from its beginning. Used by one thread at a time.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // Puts the next record in place, or returns false at the end of the file; not called after that.
  virtual bool next(Element& record) = 0;

  // Passes over the next `count` records, as many calls of next would. A reader that can do better overrides it.
  // Throws: data_loss if the file has fewer.
  virtual void skip(int64_t count);
};

using OpenRecords = std::function<std::unique_ptr<RecordReader>(const std::filesystem::path& file)>;

// The records of files, one file after the other. `open` is called when a file is reached, at once for several passes.
// An iterator is saved as the file and the number of its records that were read. `batch_size`: as
// Node::batch_size of the records.
NodePtr read_files(std::vector<std::filesystem::path> files, OpenRecords open, int64_t batch_size = kUnknown);

}  // namespace tutti::data::graph
