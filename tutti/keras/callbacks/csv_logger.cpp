#include "tutti/keras/callbacks/csv_logger.h"

#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/callbacks/number_text.h"
#include "tutti/keras/model.h"

namespace tutti::keras::callbacks {
namespace {

class CSVLoggerImpl : public CallbackImpl {
 public:
  explicit CSVLoggerImpl(const CSVLoggerOptions& options) : options_(options) {
    if (options.filename.empty()) throw Error(ErrorCode::invalid_argument, "CSVLogger: the filename is empty");
    if (std::string_view("\"\r\n\0", 4).find(options.separator) != std::string_view::npos)
      throw Error(ErrorCode::invalid_argument, "CSVLogger: the separator must not be a quote, a zero or a line's end");
  }

  void on_train_begin(TrainingState& state) override {
    writes_ = state.model.model().strategy().is_chief();
    if (!writes_) return;
    has_header_ = options_.append && std::ifstream(options_.filename).peek() != std::ifstream::traits_type::eof();
    columns_.clear();
    errno = 0;
    file_ = std::ofstream(options_.filename, std::ios::binary | (options_.append ? std::ios::app : std::ios::trunc));
    check("open");
  }

  void on_epoch_end(TrainingState&, int64_t epoch, Logs& logs) override {
    if (!writes_) return;
    if (columns_.empty()) begin_table(logs);
    file_ << epoch;
    for (const std::string& name : columns_) {
      const auto found = logs.find(name);
      file_ << options_.separator << (found == logs.end() ? "NA" : quoted(number_text(found->second)));
    }
    end_line();
  }

  void on_train_end(TrainingState&, const Logs&) override {
    if (!writes_) return;
    file_.close();
    check("close");
  }

 private:
  void begin_table(const Logs& logs) {
    bool validated = false;
    for (const auto& [name, value] : logs) {
      columns_.push_back(name);
      validated = validated || name.starts_with("val_");
    }
    if (!validated)
      for (const auto& [name, value] : logs) columns_.push_back("val_" + name);
    if (has_header_) return;
    file_ << "epoch";
    for (const std::string& name : columns_) file_ << options_.separator << quoted(name);
    end_line();
  }

  // As RFC 4180 has it.
  std::string quoted(const std::string& field) const {
    const std::string special = {options_.separator, '"', '\r', '\n'};
    if (field.find_first_of(special) == std::string::npos) return field;
    std::string text = "\"";
    for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
    return text + '"';
  }

  void end_line() {
    errno = 0;
    file_ << "\r\n" << std::flush;
    check("write");
  }

  void check(const char* what) const {
    if (file_) return;
    throw Error(ErrorCode::unavailable, str("CSVLogger: cannot ", what, " '", options_.filename.string(),
                                            "': ", std::generic_category().message(errno)));
  }

  CSVLoggerOptions options_;
  std::ofstream file_;
  std::vector<std::string> columns_;  // but "epoch"
  bool has_header_ = false;
  bool writes_ = true;  // this process does: it is the chief
};

}  // namespace

CSVLogger::CSVLogger(const CSVLoggerOptions& options) : Callback(std::make_shared<CSVLoggerImpl>(options)) {}

}  // namespace tutti::keras::callbacks
