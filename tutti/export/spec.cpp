#include "tutti/export/spec.h"

#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"

namespace tutti::saved_model {

std::string to_string(const Spec& spec) {
  std::string text = spec.is_text ? "text [" : str(files::dtype_name(spec.dtype), " [");
  for (size_t axis = 0; axis < spec.shape.size(); ++axis)
    text += str(axis ? ", " : "", spec.shape[axis] == kUnknown ? "unknown" : std::to_string(spec.shape[axis]));
  return text + ']';
}

}  // namespace tutti::saved_model
