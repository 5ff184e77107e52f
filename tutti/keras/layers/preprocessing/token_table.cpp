#include <functional>
#include <utility>

#include "tutti/keras/layers/preprocessing/token_table_internal.h"

namespace tutti::keras::layers {

std::string_view TokenTable::operator[](int64_t number) const {
  const auto index = static_cast<size_t>(number);
  const size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(text_).substr(begin, ends_[index] - begin);
}

int64_t TokenTable::find(std::string_view token) const {
  return slots_[slot_of(token, std::hash<std::string_view>()(token))].number;
}

int64_t TokenTable::insert(std::string_view token) {
  const uint64_t hash = std::hash<std::string_view>()(token);
  Slot& slot = slots_[slot_of(token, hash)];
  if (slot.number != kAbsent) return slot.number;
  const int64_t number = size();
  slot = {.hash = hash, .number = number};
  text_ += token;
  ends_.push_back(text_.size());
  if (2 * ends_.size() > slots_.size()) grow();
  return number;
}

size_t TokenTable::slot_of(std::string_view token, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.number == kAbsent || (slot.hash == hash && (*this)[slot.number] == token)) return at;
  }
}

void TokenTable::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.number == kAbsent) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].number != kAbsent) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace tutti::keras::layers
