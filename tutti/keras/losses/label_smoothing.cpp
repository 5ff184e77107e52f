#include "tutti/keras/losses/label_smoothing.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::keras::losses {

double checked_label_smoothing(const std::string& name, double label_smoothing) {
  if (label_smoothing >= 0 && label_smoothing <= 1) return label_smoothing;
  throw Error(ErrorCode::invalid_argument,
              str(name, ": label_smoothing is ", label_smoothing, "; it must lie in [0, 1]"));
}

Tensor smoothed(const Tensor& labels, double label_smoothing, int64_t classes) {
  if (label_smoothing == 0) return labels;
  return labels * (1 - label_smoothing) + label_smoothing / static_cast<double>(classes);
}

}  // namespace tutti::keras::losses
