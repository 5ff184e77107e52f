#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/same_bits.h"
#include "tutti/core/tensor_fwd.h"

// A step as it is and as a recorded function.
namespace tutti::recorded_and_plain {

using List = std::vector<Tensor>;
using Step = std::function<List(List& state, const List& arguments)>;

inline constexpr int kCalls = 9;

void expect_same(const List& seen, const List& wanted, const std::string& what);

// Calls the step as it is and as a function, each on a state of its own, and compares results, state, arguments and the
// random numbers that come next. Argument 0 is the predicate, which the bits of `pattern` give, from the lowest on.
void compare(const List& state, const List& arguments, unsigned pattern, const Step& step);

// With the one branch at both recordings, with the other, and with both.
void compare_all(const List& state, const List& arguments, const Step& step);

}  // namespace tutti::recorded_and_plain
