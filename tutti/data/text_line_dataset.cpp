#include "tutti/data/text_line_dataset.h"

#include <cstring>
#include <optional>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/compressed_file.h"

namespace tutti::data {
namespace {

constexpr size_t kMaxLine = size_t{1} << 30;
constexpr size_t kBlock = 64 * 1024;

class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path) : path_(path), file_(path), block_(kBlock) {}

  bool next(std::string& line) {
    line.clear();
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

 private:
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
  return from_generator([files = std::move(files)] {
    return [files, next_file = size_t{0}, reader = std::shared_ptr<LineReader>()]() mutable -> std::optional<Strings> {
      std::string line;
      while (true) {
        if (reader && reader->next(line)) return Strings(std::move(line));
        if (next_file == files.size()) return std::nullopt;
        reader = std::make_shared<LineReader>(files[next_file++]);
      }
    };
  });
}

}  // namespace tutti::data
