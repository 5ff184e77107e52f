#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti::keras::callbacks {

// When a callback acts: at the end of each epoch ("epoch"), or each time that so many batches are done, counted over
// the epochs ("batch" is 1). Throws: invalid_argument for other text, and for a number that is not positive.
class Frequency {
 public:
  Frequency(const char* text) : Frequency(parse(text)) {}
  template <std::integral Batches>
  Frequency(Batches batches) : Frequency(checked(static_cast<int64_t>(batches))) {}

  // Nothing: once an epoch.
  const std::optional<int64_t>& batches() const { return batches_; }

 private:
  explicit Frequency(std::optional<int64_t> batches) : batches_(batches) {}
  static std::optional<int64_t> parse(std::string_view text);
  static std::optional<int64_t> checked(int64_t batches);

  std::optional<int64_t> batches_;
};

// Counts batches over epochs, of which only the last of each steps_per_execution is seen.
class BatchCounter {
 public:
  explicit BatchCounter(const Frequency& frequency) : batches_(frequency.batches()) {}

  // Whether it is time to act after this batch; batches are numbered from 0 in each epoch.
  bool due(int64_t batch);

 private:
  std::optional<int64_t> batches_;
  int64_t counted_ = 0;     // since it was last due
  int64_t last_seen_ = -1;  // batch
};

}  // namespace tutti::keras::callbacks
