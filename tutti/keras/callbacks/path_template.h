#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/history.h"

namespace tutti::keras::callbacks {

// A path with places for numbers, in the form of Python's str.format: "{epoch:02d}-{val_loss:.2f}". A place is a name
// and, behind a colon, [0][width][.precision][type] with the types d, e, f and g; "{{" and "}}" are braces.
class PathTemplate {
 public:
  // Throws: invalid_argument for an empty path, and for places of another form.
  explicit PathTemplate(std::string text);

  // What the names "epoch" and "batch" stand for, and those of the logs.
  struct Numbers {
    int64_t epoch;                 // from 1
    std::optional<int64_t> batch;  // from 1
    const Logs& logs;
  };
  // Throws: invalid_argument for a name that is none of these, and for type d of a number of the logs.
  std::filesystem::path fill(const Numbers& numbers) const;

  // The folder that all filled paths lie in, as far as it has no places; empty for a path without a folder.
  std::filesystem::path fixed_folder() const;

 private:
  struct Piece {
    std::string text;  // or the name of a place
    bool is_place = false;
    bool zeros = false;  // fill up with zeros, not blanks
    int width = 0;
    int precision = -1;
    char type = 0;  // none
  };

  [[noreturn]] void refuse(const std::string& reason) const;
  Piece parse_place(const std::string& place) const;
  std::string format(const Piece& piece, const Numbers& numbers) const;
  static std::string format_whole(const Piece& piece, int64_t number);
  static std::string print(const Piece& piece, double number);
  static std::string padded(const Piece& piece, std::string digits);

  std::string text_;
  std::vector<Piece> pieces_;
};

}  // namespace tutti::keras::callbacks
