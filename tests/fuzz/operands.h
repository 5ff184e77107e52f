// What tensors and other arguments an op takes, where that does not follow from its schema.
#pragma once

#include <string>
#include <string_view>

namespace tutti::fuzz {

// `tensors` has a word for each tensor argument, in the schema's order; those left out are as the first. A word has a
// letter for each axis: equal letters are equal sizes, capital ones larger sizes, digits themselves. `_` is no tensor,
// `=` one of the first's sizes, and a list takes one word, from which all its tensors are made. After a colon: `+`
// positive elements, `f` in (0, 1), `<c` integers below the size c (a digit: below that), `@` a definite matrix, `b`
// booleans, `l` integers. Alternatives are separated by `|`. `*` in front: some leading axes more.
// `others` gives values by argument name, alternatives again separated by `|`; letters are sizes.
struct Operands {
  std::string_view op;
  std::string_view tensors;
  std::string_view others = {};
};

// Of an op by its name without overload, also for its in-place form; null where nothing is said.
const Operands* operands_of(std::string_view op);

}  // namespace tutti::fuzz
