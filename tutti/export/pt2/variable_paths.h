#pragma once

#include <string>
#include <vector>

namespace tutti::saved_model::pt2 {

// Names of variables as paths of a torch.nn.Module's attributes, one for each and no two alike: "dense/kernel" is
// "dense.kernel", "0.weight" stays what it is. What an attribute cannot be called has '_' in it or behind it.
std::vector<std::string> variable_paths(const std::vector<std::string>& names);

}  // namespace tutti::saved_model::pt2
