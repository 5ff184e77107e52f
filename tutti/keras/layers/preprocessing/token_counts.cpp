#include <algorithm>
#include <functional>
#include <tuple>

#include "tutti/keras/layers/preprocessing/token_counts_internal.h"

namespace tutti::keras::layers {

void TokenCounts::add_document(std::span<const std::string_view> tokens) {
  const int64_t document = num_documents_++;
  for (const std::string_view token : tokens) {
    const auto number = static_cast<size_t>(tokens_.insert(token));
    if (number == tallies_.size()) tallies_.emplace_back();
    Tally& tally = tallies_[number];
    ++tally.occurrences;
    tally.documents += tally.last_document != document;
    tally.last_document = document;
  }
}

std::vector<TokenCounts::Count> TokenCounts::most_frequent(std::span<const std::string> ignored,
                                                           std::optional<int64_t> limit) const {
  std::vector<Count> counts;
  counts.reserve(tallies_.size());
  for (int64_t number = 0; number < tokens_.size(); ++number) {
    const Tally& tally = tallies_[static_cast<size_t>(number)];
    if (std::ranges::find(ignored, tokens_[number]) == ignored.end())
      counts.push_back({tokens_[number], tally.occurrences, tally.documents});
  }
  const auto kept = std::min(counts.size(), static_cast<size_t>(limit.value_or(INT64_MAX)));
  std::ranges::partial_sort(counts, counts.begin() + static_cast<std::ptrdiff_t>(kept), std::greater(),
                            [](const Count& count) { return std::tuple(count.occurrences, count.token); });
  counts.resize(kept);
  return counts;
}

}  // namespace tutti::keras::layers
