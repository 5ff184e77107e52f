#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/keras/layers/preprocessing/token_table_internal.h"

namespace tutti::keras::layers {

// How often tokens were seen, and in how many documents.
class TokenCounts {
 public:
  struct Count {
    std::string_view token;  // as long as the TokenCounts live
    int64_t occurrences = 0;
    int64_t documents = 0;
  };

  void add_document(std::span<const std::string_view> tokens);

  int64_t num_documents() const { return num_documents_; }

  // The tokens that are not `ignored`, most frequent first, then by their bytes, descending; at most `limit`.
  std::vector<Count> most_frequent(std::span<const std::string> ignored, std::optional<int64_t> limit) const;

 private:
  struct Tally {
    int64_t occurrences = 0;
    int64_t documents = 0;
    int64_t last_document = -1;
  };

  TokenTable tokens_;
  std::vector<Tally> tallies_;  // by the token's number
  int64_t num_documents_ = 0;
};

}  // namespace tutti::keras::layers
