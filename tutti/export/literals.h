#pragma once

#include <vector>

#include "tutti/export/recording.h"

namespace tutti::saved_model {

// The memory that is filled as Recorded::Literal says. `kept`: the values that are no variables, by their numbers, with
// what they are when the function has ended.
std::vector<Recorded::Literal> find_literals(const std::vector<Call>& calls, const std::vector<Value>& kept);

// Of runs on inputs of several sizes, which made the same calls: literals that were the same in all of them become
// variables, and their calls vanish.
void fold_literals(std::vector<Recorded>& runs);

}  // namespace tutti::saved_model
