#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace tutti::keras {

// Runs of tokens, joined by a space, that count as the tokens: all of the first width, then all of the second, ...
class Ngrams {
 public:
  // The tokens themselves.
  Ngrams() = default;
  // Of the widths 1 to `widest`. Throws: invalid_argument unless positive.
  Ngrams(int64_t widest);
  // Of these widths. Throws: invalid_argument unless positive.
  Ngrams(std::initializer_list<int64_t> widths) : Ngrams(std::vector(widths)) {}
  explicit Ngrams(std::vector<int64_t> widths);

  const std::vector<int64_t>& widths() const { return widths_; }

 private:
  std::vector<int64_t> widths_;
};

}  // namespace tutti::keras
