#include "tutti/tensor/rules/pieces.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>

#include "tutti/mesh/shard.h"

namespace tutti {
namespace {

const Spec* spec_of(const Planner& planner, const Term& term) {
  if (term.argument >= planner.num_arguments()) return nullptr;
  if (term.item < 0) return planner.spec(term.argument);
  return planner.specs(term.argument)[static_cast<size_t>(term.item)];
}

int64_t pieces_of(const Planner& planner, int8_t dimension) {
  return planner.mesh().sizes[static_cast<size_t>(dimension)];
}

int64_t ceil_of(int64_t size, int64_t parts) { return (size + parts - 1) / parts; }

}  // namespace

bool has_empty_piece(const Planner& planner, int64_t size, int8_t dimension) {
  if (dimension < 0) return false;
  const int64_t pieces = pieces_of(planner, dimension);
  return shard_begin(size, pieces, pieces - 1) == size;
}

void whole_where_empty(const Planner& planner, const std::string& letters, std::vector<Term>& terms,
                       std::vector<std::string>& results) {
  for (const char letter : letters) {
    int64_t size = 0;
    std::vector<int8_t> dimensions;
    for (const Term& term : terms)
      if (const Spec* spec = spec_of(planner, term))
        for (size_t axis = 0; axis < term.letters.size(); ++axis)
          if (term.letters[axis] == letter) {
            size = std::max(size, spec->sizes[axis]);
            dimensions.push_back(spec->axes[axis]);
          }
    if (std::none_of(dimensions.begin(), dimensions.end(),
                     [&](int8_t dimension) { return has_empty_piece(planner, size, dimension); }))
      continue;
    const auto capital = static_cast<char>(std::toupper(letter));
    for (Term& term : terms) std::replace(term.letters.begin(), term.letters.end(), letter, capital);
    for (std::string& result : results) std::replace(result.begin(), result.end(), letter, capital);
  }
}

SliceRange::SliceRange(const Planner& planner, int first, int64_t size) : step(planner.integer(first + 2)) {
  TORCH_CHECK(step > 0, "slice step must be positive");
  const auto bound = [&](int argument, int64_t otherwise) {
    if (planner.is_none(argument)) return otherwise;
    const int64_t value = planner.integer(argument);
    return std::clamp(value < 0 ? value + size : value, int64_t{0}, size);
  };
  begin = bound(first, 0);
  end = bound(first + 1, size);
}

bool slices_in_place(const Planner& planner, const SliceRange& range, int64_t size, int8_t dimension) {
  if (dimension < 0) return true;
  if (range.begin != 0 || range.end != size) return false;
  const int64_t pieces = pieces_of(planner, dimension), piece = ceil_of(size, pieces);
  return range.step == 1 ||
         (piece % range.step == 0 && ceil_of(ceil_of(size, range.step), pieces) == piece / range.step);
}

}  // namespace tutti
