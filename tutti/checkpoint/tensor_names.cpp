#include "tutti/checkpoint/tensor_names.h"

#include <algorithm>

#include "tutti/checkpoint/index.h"

namespace tutti::checkpoint {
namespace {

size_t num_common_bytes(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

TensorNames::TensorNames(const std::vector<IndexedTensor>& tensors) {
  if (tensors.empty()) return;
  std::string_view common = tensors.front().name;
  for (const IndexedTensor& tensor : tensors) common = common.substr(0, num_common_bytes(common, tensor.name));
  num_common_ = common.size();
  entries_.reserve(tensors.size());
  for (const IndexedTensor& tensor : tensors) entries_.push_back({key_of(tensor.name), &tensor});
  const auto before = [](const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.tensor->name < b.tensor->name;
  };
  if (!std::ranges::is_sorted(entries_, before))
    std::ranges::stable_sort(entries_, before);  // numbers are nearly in order
}

// Most names differ in their keys: numbers that are compared without going to the name. Keys are in the names' order.
uint64_t TensorNames::key_of(std::string_view name) const {
  uint64_t key = 0;
  for (size_t i = 0; i < sizeof key; ++i) {
    const size_t at = num_common_ + i;
    key = key << 8 | (at < name.size() ? static_cast<unsigned char>(name[at]) : 0);
  }
  return key;
}

const IndexedTensor* TensorNames::find(std::string_view name) const {
  if (entries_.empty()) return nullptr;
  const uint64_t key = key_of(name);
  const auto found = std::ranges::partition_point(
      entries_, [&](const Entry& entry) { return entry.key != key ? entry.key < key : entry.tensor->name < name; });
  return found == entries_.end() || found->tensor->name != name ? nullptr : found->tensor;
}

bool TensorNames::has_one_that_starts_with(std::string_view beginning) const {
  const auto found =
      std::ranges::partition_point(entries_, [&](const Entry& entry) { return entry.tensor->name < beginning; });
  return found != entries_.end() && found->tensor->name.starts_with(beginning);
}

const std::pmr::string* TensorNames::twice() const {
  const auto name = [](const Entry& entry) -> const std::pmr::string& { return entry.tensor->name; };
  const auto same = [&](const Entry& a, const Entry& b) { return a.key == b.key && name(a) == name(b); };
  const auto found = std::ranges::adjacent_find(entries_, same);
  return found == entries_.end() ? nullptr : &name(*found);
}

}  // namespace tutti::checkpoint
