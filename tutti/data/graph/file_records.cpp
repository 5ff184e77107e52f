#include "tutti/data/graph/file_records.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/content.h"

namespace tutti::data::graph {
namespace {

struct Files {
  std::vector<std::filesystem::path> paths;
  std::string call;
  OpenRecords open;

  // Their names, and not those of their folders: an iterator may go on where they were moved to.
  std::string text() const {
    uint32_t checksum = 0;
    for (const auto& path : paths) checksum = checksum_of_text(path.filename().string(), checksum);
    return str(call, " of files(", paths.size(), ',', checksum, ')');
  }
};

class FilesIterator : public Iterator {
 public:
  explicit FilesIterator(std::shared_ptr<const Files> files) : files_(std::move(files)) {}

  bool next(Element& element) override {
    for (; file_ < files_->paths.size(); ++file_, num_read_ = 0) {
      if (read(element)) return true;
      reader_.reset();
    }
    return false;
  }

  void save(StateWriter& state) override {
    state.op(files_->text());
    state.number(static_cast<int64_t>(file_));
    state.number(num_read_);
    if (num_read_ > 0) reader_->save(state);
  }

  void restore(StateReader& state) override {
    state.op(files_->text());
    file_ = static_cast<size_t>(state.number_in(0, static_cast<int64_t>(files_->paths.size())));
    num_read_ = state.number_in(0, file_ < files_->paths.size() ? INT64_MAX : 0);
    if (num_read_ == 0) return;
    reader_ = files_->open(files_->paths[file_]);
    reader_->restore(state, num_read_);
  }

 private:
  // The next record of the file. After an error the reader cannot go on from, the rest of the file is passed over.
  bool read(Element& element) {
    try {
      if (!reader_) reader_ = files_->open(files_->paths[file_]);
      const bool any = reader_->next(element);
      num_read_ += any;
      return any;
    } catch (...) {
      if (reader_ && reader_->goes_on()) {
        ++num_read_;
        throw;
      }
      reader_.reset();
      ++file_;
      num_read_ = 0;
      throw;
    }
  }

  std::shared_ptr<const Files> files_;
  size_t file_ = 0;
  int64_t num_read_ = 0;                  // or lost, of that file
  std::unique_ptr<RecordReader> reader_;  // null until a record of that file is asked for
};

NodePtr too_few_files(int64_t num_files, int64_t num_shards) {
  Node node;
  node.iterate = [=](const Context&) -> std::unique_ptr<Iterator> {
    throw Error(ErrorCode::invalid_argument,
                str("auto-sharding: a reader of ", num_files, " files for ", num_shards,
                    " input pipelines; each needs one: use fewer pipelines, more files, or AutoShardPolicy::data"));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

void RecordReader::save(StateWriter&) const {}

void RecordReader::restore(StateReader&, int64_t num_read) {
  const auto next_or_lost = [this] {
    Element passed_over;
    try {
      return next(passed_over);
    } catch (...) {
      if (!goes_on()) throw;
      return true;
    }
  };
  for (int64_t i = 0; i < num_read; ++i)
    if (!next_or_lost())
      throw Error(ErrorCode::data_loss,
                  str("restoring an iterator: ", num_read, " records of a file had been read, which has now ", i,
                      "; the file has changed, or the state is of another"));
}

NodePtr read_files(std::vector<std::filesystem::path> files, const std::string& call, OpenRecords open,
                   int64_t batch_size) {
  Node node;
  if (files.empty()) node.cardinality = 0;
  node.files = files;
  node.batch_size = batch_size;
  node.uniform = batch_size == kNotBatched;
  const auto shared = std::make_shared<const Files>(Files{std::move(files), call, std::move(open)});
  node.shard_files = [shared, batch_size](int64_t num_shards, int64_t index) {
    const auto& paths = shared->paths;
    const auto num_files = static_cast<int64_t>(paths.size());
    if (index < num_files && num_files < num_shards) return too_few_files(num_files, num_shards);
    std::vector<std::filesystem::path> own;
    for (auto i = static_cast<size_t>(index); i < paths.size(); i += static_cast<size_t>(num_shards))
      own.push_back(paths[i]);
    return read_files(std::move(own), shared->call, shared->open, batch_size);
  };
  node.iterate = [shared](const Context&) { return std::make_unique<FilesIterator>(shared); };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
