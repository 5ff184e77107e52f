#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tutti/data/compressed_file.h"

namespace tutti::data {

// Takes one CSV file apart: RFC 4180, with any delimiter. A field in double quotes may hold delimiters, line ends and,
// doubled, quotes. Lines end in "\n", "\r\n" or "\r"; empty lines, and a byte order mark in front, are passed over.
// Throws, from every member: what CompressedFile throws; data_loss, naming file and line, for quotes that don't match,
// a record of more than 1 GB or of more than 2^20 fields. After unmatched quotes it goes on with the next line.
class CsvParser {
 public:
  CsvParser(const std::filesystem::path& path, char delimiter, bool quotes);

  // Puts the fields of the next record in place, without their quotes; false at the end of the file.
  bool next(std::vector<std::string>& fields);

  // Whether a record can be read after next() has thrown.
  bool goes_on() const { return goes_on_; }
  // An empty line is a record of one empty field, not passed over: for files of one column.
  void keep_empty_lines() { keeps_empty_lines_ = true; }

  // The line, from 1, on which the last record begins.
  int64_t line() const { return record_line_; }

 private:
  static constexpr int kEnd = -1;

  int peek() { return begin_ < end_ || fill() ? static_cast<unsigned char>(block_[begin_]) : kEnd; }
  bool fill();
  void pass_line_end();
  void read_plain(std::string& field);
  void read_quoted(std::string& field);
  void append(std::string& field, size_t count);
  void pass_line();
  [[noreturn]] void unmatched(const std::string& what);
  [[noreturn]] void damaged(const std::string& what) const;

  std::filesystem::path path_;
  CompressedFile file_;
  int delimiter_;
  bool quotes_;
  std::array<bool, 256> ends_run_{};  // whether a byte may end a plain field, or does not belong in one
  std::vector<char> block_;
  size_t begin_ = 0, end_ = 0;  // of what is left in block_
  int64_t line_ = 1;
  int64_t record_line_ = 0;
  size_t record_bytes_ = 0;
  bool goes_on_ = true;
  bool keeps_empty_lines_ = false;
};

}  // namespace tutti::data
