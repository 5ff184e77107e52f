#pragma once

#include <string>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti {

// The word at each index, in the indices' shape. Throws: invalid_argument unless the indices are integers, out_of_range
// for one that has no word. TF: tf.gather of strings.
Strings strings_from(const Tensor& indices, const std::vector<std::string>& words);

}  // namespace tutti
