#include "tutti/data/fixed_length_record_dataset.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/compressed_file.h"
#include "tutti/data/graph/call_text.h"
#include "tutti/data/graph/file_records.h"

namespace tutti::data {
namespace {

struct FileForm {
  uint64_t record, header, footer;  // bytes
  Compression compression;
};

class FixedLengthReader : public graph::RecordReader {
 public:
  FixedLengthReader(const std::filesystem::path& path, const FileForm& form)
      : path_(path), form_(form), file_(path, form.compression) {
    if (form.compression == Compression::none) check_size(file_.max_left());
  }

  bool next(graph::Element& element) override {
    if (!begun_) go_to(form_.header);
    std::string bytes = file_.read_string(form_.record);
    if (bytes.empty()) return false;
    if (bytes.size() < form_.record) damaged(str("its last record has ", bytes.size(), " of ", form_.record, " bytes"));
    if (form_.footer > 0) {
      bytes.insert(0, ahead_);
      ahead_ = bytes.substr(form_.record);
      bytes.resize(form_.record);
    }
    element = graph::Element({Strings(std::move(bytes))});
    return true;
  }

  void save(graph::StateWriter& state) const override {
    state.number(static_cast<int64_t>(file_.position() - ahead_.size()));
  }
  void restore(graph::StateReader& state, int64_t) override {
    go_to(static_cast<uint64_t>(state.number_in(0, INT64_MAX)));
  }

 private:
  void check_size(uint64_t size) const {
    if (size < form_.header || size - form_.header < form_.footer ||
        (size - form_.header - form_.footer) % form_.record != 0)
      damaged(str("its ", size, " bytes are not a header of ", form_.header, ", records of ", form_.record,
                  " and a footer of ", form_.footer));
  }

  // Where a record begins. As the end of the file alone says where the footer does, so many bytes are read ahead: a
  // compressed file has then no way back to before them.
  void go_to(uint64_t position) {
    begun_ = true;
    file_.seek(position);
    ahead_ = file_.read_string(form_.footer);
    if (ahead_.size() < form_.footer) damaged(str("it ends before a footer of ", form_.footer, " bytes"));
  }

  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorCode::data_loss, str("fixed_length_record_dataset: '", path_.string(), "': ", what));
  }

  std::filesystem::path path_;
  FileForm form_;
  CompressedFile file_;
  std::string ahead_;   // as long as a footer
  bool begun_ = false;  // is where a record begins
};

}  // namespace

Dataset<Strings> fixed_length_record_dataset(std::vector<std::filesystem::path> files, int64_t record_bytes,
                                             const FixedLengthRecordOptions& options) {
  if (record_bytes < 1 || options.header_bytes < 0 || options.footer_bytes < 0)
    throw Error(ErrorCode::invalid_argument, str("fixed_length_record_dataset: records of ", record_bytes,
                                                 " bytes, a header of ", options.header_bytes, " and a footer of ",
                                                 options.footer_bytes, "; a record has at least 1 byte, the others 0"));
  const FileForm form{.record = static_cast<uint64_t>(record_bytes),
                      .header = static_cast<uint64_t>(options.header_bytes),
                      .footer = static_cast<uint64_t>(options.footer_bytes),
                      .compression = options.compression};
  return Dataset<Strings>(graph::read_files(
      std::move(files),
      graph::call_text("fixed_length_record_dataset", record_bytes, options.header_bytes, options.footer_bytes,
                       to_string(options.compression)),
      [form](const std::filesystem::path& file) { return std::make_unique<FixedLengthReader>(file, form); },
      graph::kNotBatched));
}

}  // namespace tutti::data
