#pragma once

#include <string>
#include <vector>

#include "tutti/tensor/planner.h"
#include "tutti/tensor/rules/notation.h"

namespace tutti {

// Whether an axis of `size` that the mesh dimension cuts has an empty piece. False for dimension -1.
bool has_empty_piece(const Planner& planner, int64_t size, int8_t dimension);

// Makes those of `letters` capital of which a piece might be empty, in all terms and results: for axes along which an
// op's kernels refuse empty tensors.
void whole_where_empty(const Planner& planner, const std::string& letters, std::vector<Term>& terms,
                       std::vector<std::string>& results);

// slice's arguments start, end and step, from argument `first` on, for an axis of `size`.
struct SliceRange {
  int64_t begin, end, step;
  SliceRange(const Planner& planner, int first, int64_t size);
  // How many elements it takes.
  int64_t length() const { return end > begin ? (end - begin + step - 1) / step : 0; }
};

// Whether the slices of the pieces of an axis are the pieces of its slice.
bool slices_in_place(const Planner& planner, const SliceRange& range, int64_t size, int8_t dimension);

}  // namespace tutti
