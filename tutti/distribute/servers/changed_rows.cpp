#include "tutti/distribute/servers/changed_rows.h"

#include <bit>
#include <numeric>

namespace tutti::servers {
namespace {

constexpr int64_t kBits = 64;

}  // namespace

void ChangedRows::note(std::span<const int64_t> rows) {
  if (told_ == 0) return;
  for (const int64_t row : rows) changed_[static_cast<size_t>(row / kBits)] |= uint64_t{1} << row % kBits;
}

std::optional<std::vector<int64_t>> ChangedRows::since(uint64_t version) const {
  if (told_ == 0 || told_ != version) return {};
  const auto add_bits = [](int64_t sum, uint64_t word) { return sum + std::popcount(word); };
  const int64_t count = std::accumulate(changed_.begin(), changed_.end(), int64_t{0}, add_bits);
  if (2 * count > num_rows_) return {};
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(count));
  for (size_t i = 0; i < changed_.size(); ++i)
    for (uint64_t word = changed_[i]; word != 0; word &= word - 1)
      rows.push_back(static_cast<int64_t>(i) * kBits + std::countr_zero(word));
  return rows;
}

void ChangedRows::tell(uint64_t version, int64_t num_rows) {
  told_ = version;
  num_rows_ = num_rows;
  changed_.assign(static_cast<size_t>((num_rows + kBits - 1) / kBits), 0);
}

}  // namespace tutti::servers
