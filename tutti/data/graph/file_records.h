#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/data/graph/node.h"

namespace tutti::data::graph {

// The records of one file, from its beginning. Used by one thread at a time.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // Puts the next record in place, or returns false at the end of the file; not called after that.
  virtual bool next(Element& record) = 0;
  // After next() has thrown: whether that one record was lost, and the next call gives the one behind it; else the rest
  // of the file cannot be read.
  virtual bool goes_on() const { return false; }

  // Passes over the records that were read when the state was saved, `num_read` of them, the lost ones among them; in a
  // new reader of the same file. A reader that need not read them again saves where the next one begins.
  // Throws: data_loss if the file does not have so many, or no such place.
  virtual void save(StateWriter& state) const;
  virtual void restore(StateReader& state, int64_t num_read);
};

using OpenRecords = std::function<std::unique_ptr<RecordReader>(const std::filesystem::path& file)>;

// The records of files, one file after the other. `open` is called when a file is reached, at once for several passes.
// An iterator is saved as the file, the number of its records that were read or lost, and what its reader saves.
// call: what the reader is, with the arguments on which its records depend, as text (call_text).
// batch_size: of the records, as in Node.
NodePtr read_files(std::vector<std::filesystem::path> files, const std::string& call, OpenRecords open,
                   int64_t batch_size = kUnknown);

}  // namespace tutti::data::graph
