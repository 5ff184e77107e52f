#include "tutti/function/loop.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

std::string text_of_kind(const Tensor& tensor) {
  if (!tensor.defined()) return "no tensor";
  return str(c10::getDtypeNames(tensor.scalar_type()).first, ' ', str_list(tensor.sizes()));
}

void Loop::refuse_other(const FlatTensors& next) const {
  if (next.form != state.form)
    throw Error(ErrorCode::invalid_argument,
                str("while_loop: the state is a structure ", state.form, ", and the body returns one of ", next.form));
  for (size_t i = 0; i < next.leaves.size(); ++i) {
    const std::string before = text_of_kind(state.leaves[i]), after = text_of_kind(next.leaves[i]);
    if (before != after)
      throw Error(ErrorCode::invalid_argument, str("while_loop: state ", i, " is ", before, ", and the body returns ",
                                                   after, " for it; it must keep its shape and dtype"));
  }
}

}  // namespace tutti
