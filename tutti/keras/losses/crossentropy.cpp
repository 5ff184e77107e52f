#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/losses/crossentropy_internal.h"

namespace tutti::keras::losses {

void check_label_smoothing(const std::string& name, double label_smoothing) {
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    throw Error(ErrorCode::invalid_argument,
                str(name, ": label_smoothing is ", label_smoothing, "; it must lie in [0, 1]"));
}

}  // namespace tutti::keras::losses
