#include "tutti/data/csv_parser.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

constexpr size_t kMaxRecord = size_t{1} << 30;
constexpr size_t kMaxFields = size_t{1} << 20;
constexpr size_t kCsvBlock = 64 * 1024;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

CsvParser::CsvParser(const std::filesystem::path& path, char delimiter, bool quotes)
    : path_(path), file_(path), delimiter_(static_cast<unsigned char>(delimiter)), quotes_(quotes), block_(kCsvBlock) {
  for (const int byte : {delimiter_, int{'\n'}, int{'\r'}}) ends_run_[static_cast<size_t>(byte)] = true;
  ends_run_['"'] |= quotes;
  if (fill() && std::string_view(block_.data(), end_).starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
}

bool CsvParser::next(std::vector<std::string>& fields) {
  goes_on_ = false;  // where something is thrown from here on
  for (int byte; !keeps_empty_lines_ && ((byte = peek()) == '\n' || byte == '\r');) pass_line_end();
  if (peek() == kEnd) return false;
  record_line_ = line_;
  record_bytes_ = 0;
  for (size_t count = 0;;) {
    if (count == kMaxFields) damaged(str("has more than ", kMaxFields, " fields"));
    if (++count > fields.size()) fields.emplace_back();
    std::string& field = fields[count - 1];
    field.clear();
    quotes_&& peek() == '"' ? read_quoted(field) : read_plain(field);
    const int byte = peek();
    if (byte == delimiter_) {
      ++begin_;
      continue;
    }
    if (byte != kEnd) pass_line_end();
    fields.resize(count);
    goes_on_ = true;
    return true;
  }
}

void CsvParser::read_plain(std::string& field) {
  while (peek() != kEnd) {
    const char* const begin = block_.data() + begin_;
    const char* const end = block_.data() + end_;
    const char* const stop =
        std::find_if(begin, end, [&](char byte) { return ends_run_[static_cast<unsigned char>(byte)]; });
    append(field, static_cast<size_t>(stop - begin));
    if (stop == end) continue;
    if (*stop == '"' && delimiter_ != '"')
      unmatched(
          "has a quote inside of a field that does not begin with one; quote the field and double the quote, or set "
          "use_quote_delim = false");
    return;
  }
}

void CsvParser::read_quoted(std::string& field) {
  ++begin_;
  while (true) {
    if (peek() == kEnd) damaged("has a quoted field without an end");
    const char* const begin = block_.data() + begin_;
    const auto* quote = static_cast<const char*>(std::memchr(begin, '"', end_ - begin_));
    const char* const end = quote ? quote : block_.data() + end_;
    line_ += std::count(begin, end, '\n');
    append(field, static_cast<size_t>(end - begin));
    if (!quote) continue;
    ++begin_;
    if (peek() != '"') break;
    append(field, 1);
  }
  const int byte = peek();
  if (byte != kEnd && byte != delimiter_ && byte != '\n' && byte != '\r')
    unmatched("has more in a field after its closing quote; a quote inside of a field is written twice");
}

void CsvParser::append(std::string& field, size_t count) {
  if ((record_bytes_ += count) > kMaxRecord) damaged("has more than 1 GB");
  field.append(block_.data() + begin_, count);
  begin_ += count;
}

void CsvParser::pass_line_end() {
  const bool carriage_return = block_[begin_++] == '\r';
  if (carriage_return && peek() == '\n') ++begin_;
  ++line_;
}

bool CsvParser::fill() {
  begin_ = 0;
  end_ = file_.read(block_.data(), block_.size());
  return end_ > 0;
}

void CsvParser::pass_line() {
  for (int byte; (byte = peek()) != kEnd && byte != '\n' && byte != '\r';) ++begin_;
  if (peek() != kEnd) pass_line_end();
}

void CsvParser::unmatched(const std::string& what) {
  pass_line();
  goes_on_ = true;
  damaged(what);
}

void CsvParser::damaged(const std::string& what) const {
  throw Error(ErrorCode::data_loss,
              str("csv_dataset: '", path_.string(), "', the record on line ", record_line_, " ", what));
}

}  // namespace tutti::data
