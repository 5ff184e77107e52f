#pragma once

#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::losses {

// Returns the smoothing. Throws invalid_argument unless it lies in [0, 1].
double checked_label_smoothing(const std::string& name, double label_smoothing);

// y * (1 - s) + s / classes
Tensor smoothed(const Tensor& labels, double label_smoothing, int64_t classes);

}  // namespace tutti::keras::losses
