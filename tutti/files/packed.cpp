#include "tutti/files/packed.h"

#include <ATen/core/Tensor.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::files {

Tensor packed(const Tensor& tensor, const char* op) {
  if (!tensor.defined() || tensor.layout() != at::kStrided)
    throw Error(ErrorCode::invalid_argument, str(op, ": the tensor is ", tensor.defined() ? "sparse" : "undefined",
                                                 "; a dense one is required, such as to_dense() gives"));
  return tensor.detach().cpu().resolve_conj().resolve_neg().contiguous();
}

}  // namespace tutti::files
