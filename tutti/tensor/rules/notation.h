#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/tensor/planner.h"

namespace tutti {

// A tensor argument (or one tensor of a list argument) and a letter for each of its axes.
struct Term {
  int argument;
  std::string letters;
  int item = -1;
  bool broadcasts = false;  // the op takes an axis of size 1 beside longer ones of its letter
};

// Plans a call from a notation like einsum's: matmul is {{0, "ik"}, {1, "kj"}} -> {"ij"}.
//   - Axes that share a letter have one size and are sharded alike; an axis of size 1 that is broadcast stays whole.
//   - A capital letter is an axis that the op needs whole; its size is the op's affair.
//   - A digit is for axes of several sizes that are cut at the same places; who uses it gives the results' sizes.
//   - A letter that is missing in a result was reduced: the results of the calls on its pieces are combined.
// Where operands disagree, one that the op writes decides, then the one with the most elements. Terms whose argument is
// absent are left out. Returns the axes of each result. Throws: NoShardedForm for other ranks or sizes than these.
std::vector<AxisMap> shard(Planner& planner, const std::vector<Term>& terms, const std::vector<std::string>& results,
                           Combination combination = Combination::sum);

// "abc…" for axes first, first + 1, …; from 'A' on for axes that the op needs whole. Throws: NoShardedForm past 'y' or
// 'Z', and for a negative count.
std::string letters(int64_t count, char first = 'a');
// The letters with those at `axes`, which may be negative, made capital. Throws: as Planner::axis.
std::string whole_at(std::string letters, at::IntArrayRef axes);

}  // namespace tutti
