#include "tutti/core/tensor_version.h"

#include <ATen/core/Tensor.h>

namespace tutti {

int64_t version_of(const Tensor& tensor) {
  return !tensor.defined() || tensor.is_inference() ? -1 : static_cast<int64_t>(tensor._version());
}

}  // namespace tutti
