#include "tutti/data/graph/file_records.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data::graph {
namespace {

struct Files {
  std::vector<std::filesystem::path> paths;
  OpenRecords open;
};

class FilesIterator : public Iterator {
 public:
  explicit FilesIterator(std::shared_ptr<const Files> files) : files_(std::move(files)) {}

  bool next(Element& element) override {
    for (; file_ < files_->paths.size(); ++file_, num_read_ = 0) {
      if (!reader_) reader_ = files_->open(files_->paths[file_]);
      if (reader_->next(element)) {
        ++num_read_;
        return true;
      }
      reader_.reset();
    }
    return false;
  }

  void save(StateWriter& state) override {
    state.number(static_cast<int64_t>(file_));
    state.number(num_read_);
  }

  void restore(StateReader& state) override {
    const auto num_files = static_cast<int64_t>(files_->paths.size());
    file_ = static_cast<size_t>(state.number_in(0, num_files));
    num_read_ = state.number_in(0, file_ < files_->paths.size() ? INT64_MAX : 0);
    if (num_read_ == 0) return;
    reader_ = files_->open(files_->paths[file_]);
    reader_->skip(num_read_);
  }

 private:
  std::shared_ptr<const Files> files_;
  size_t file_ = 0;
  int64_t num_read_ = 0;                  // of that file
  std::unique_ptr<RecordReader> reader_;  // null until a record of that file is asked for
};

}  // namespace

void RecordReader::skip(int64_t count) {
  Element passed_over;
  for (int64_t i = 0; i < count; ++i)
    if (!next(passed_over))
      throw Error(ErrorCode::data_loss, str("restoring an iterator: ", count,
                                            " records of a file had been read, which "
                                            "has now ",
                                            i, "; the file has changed, or the state is of another"));
}

NodePtr read_files(std::vector<std::filesystem::path> files, OpenRecords open, int64_t batch_size) {
  Node node;
  if (files.empty()) node.cardinality = 0;
  node.batch_size = batch_size;
  const auto shared = std::make_shared<const Files>(Files{std::move(files), std::move(open)});
  node.shard_files = [shared, batch_size](int64_t num_shards, int64_t index) {
    const auto& paths = shared->paths;
    std::vector<std::filesystem::path> own;
    for (auto i = static_cast<size_t>(index); i < paths.size(); i += static_cast<size_t>(num_shards))
      own.push_back(paths[i]);
    return read_files(std::move(own), shared->open, batch_size);
  };
  node.iterate = [shared](const std::stop_token&) { return std::make_unique<FilesIterator>(shared); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
