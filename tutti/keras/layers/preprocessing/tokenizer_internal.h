#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/keras/layers/preprocessing/text_vectorization_options.h"

namespace tutti::keras::layers {

// Makes tokens of texts, in memory that it uses again: one for each thread.
class Tokenizer {
 public:
  // The options must outlive it.
  explicit Tokenizer(const TextVectorizationOptions& options);

  // The tokens of these texts, which stand in one row, until the next call.
  std::span<const std::string_view> operator()(std::span<const std::string> texts);

 private:
  struct Piece {  // of text_
    size_t begin, end;
  };

  void append_standardized(std::string_view text);
  void append_piece(std::string_view token);
  // What is in text_ from `begin` on.
  void split(size_t begin);
  void split_at_whitespace(size_t begin);
  void split_into_characters(size_t begin);
  void make_ngrams();

  const TextVectorizationOptions& options_;
  std::array<int16_t, 256> standardized_;  // what each byte becomes; negative if it is dropped
  std::string text_;
  std::vector<Piece> pieces_;  // the tokens
  std::vector<std::string_view> tokens_;
};

}  // namespace tutti::keras::layers
