#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/tensor/plan.h"

namespace tutti {

// A tensor argument (or one tensor of a list argument) and a letter for each of its axes.
struct Term {
  int argument;
  std::string letters;
  int item = -1;
};

// Plans a call from a notation like einsum's: matmul is {{0, "ik"}, {1, "kj"}} -> {"ij"}.
//   - Axes that share a letter are sharded alike; an axis of size 1 beside a longer one is broadcast and stays whole.
//   - A capital letter is an axis that the op needs whole.
//   - A letter that is missing in a result was reduced: the results of the calls on its pieces are combined.
// Where operands disagree, one that the op writes decides, then the one with the most elements. Terms whose argument is
// absent are left out. Returns the axes of each result.
std::vector<AxisMap> shard(Planner& planner, const std::vector<Term>& terms, const std::vector<std::string>& results,
                           Combination combination = Combination::sum);

// "abc…" for axes first, first + 1, …; from 'A' on for axes that the op needs whole.
std::string letters(int64_t count, char first = 'a');
// The letters with those at `axes` made capital.
std::string whole_at(std::string letters, at::IntArrayRef axes);

}  // namespace tutti
