#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

// Calls step on the next n elements of an iterator (of a Dataset, or of what a strategy distributes) and returns the
// last result, if it has one. All elements are fetched before the first call. Throws: invalid_argument for n < 1;
// out_of_range where the data end before: then no call was made, and the elements that were left are taken.
template <class Step, class Iterator>
auto repeat(int64_t n, const Step& step, Iterator& iterator) {
  if (n < 1) throw Error(ErrorCode::invalid_argument, str("repeat: ", n, " calls; there must be at least one"));
  std::vector<typename Iterator::value_type> elements;
  for (; std::ssize(elements) < n; ++iterator) {
    if (iterator == std::default_sentinel)
      throw Error(ErrorCode::out_of_range,
                  str("repeat: the data ended after ", elements.size(), " of ", n, " elements"));
    elements.push_back(*iterator);
  }
  for (int64_t i = 0; i + 1 < n; ++i) step(elements[static_cast<size_t>(i)]);
  return step(elements.back());
}

}  // namespace tutti
