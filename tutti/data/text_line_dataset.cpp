#include "tutti/data/text_line_dataset.h"

#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/compressed_file.h"
#include "tutti/data/graph/file_records.h"

namespace tutti::data {
namespace {

constexpr size_t kMaxLine = size_t{1} << 30;
constexpr size_t kLineBlock = 64 * 1024;

class LineReader : public graph::RecordReader {
 public:
  explicit LineReader(const std::filesystem::path& path) : path_(path), file_(path), block_(kLineBlock) {}

  bool next(graph::Element& record) override {
    std::string line;
    if (!next_line(line)) return false;
    record = graph::Element({Strings(std::move(line))});
    return true;
  }

  void save(graph::StateWriter& state) const override {
    state.number(static_cast<int64_t>(file_.position() - (end_ - begin_)));
  }
  void restore(graph::StateReader& state, int64_t) override {
    file_.seek(static_cast<uint64_t>(state.number_in(0, INT64_MAX)));
  }

 private:
  bool next_line(std::string& line) {
    bool any = false;
    while (begin_ < end_ || fill()) {
      any = true;
      const char* const begin = block_.data() + begin_;
      const auto* found = static_cast<const char*>(std::memchr(begin, '\n', end_ - begin_));
      const size_t count = found ? static_cast<size_t>(found - begin) : end_ - begin_;
      if (line.size() + count > kMaxLine)
        throw Error(ErrorCode::data_loss,
                    str("text_line_dataset: '", path_.string(), "' has a line of more than 1 GB"));
      line.append(begin, count);
      begin_ += count + (found != nullptr);
      if (found) break;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return any;
  }

  bool fill() {
    begin_ = 0;
    end_ = file_.read(block_.data(), block_.size());
    return end_ > 0;
  }

  std::filesystem::path path_;
  CompressedFile file_;
  std::vector<char> block_;
  size_t begin_ = 0, end_ = 0;  // of what is left in block_
};

}  // namespace

Dataset<Strings> text_line_dataset(std::vector<std::filesystem::path> files) {
  return Dataset<Strings>(graph::read_files(
      std::move(files), "text_line_dataset",
      [](const std::filesystem::path& file) { return std::make_unique<LineReader>(file); }, graph::kNotBatched));
}

}  // namespace tutti::data
