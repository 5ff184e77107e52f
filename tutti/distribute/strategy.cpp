#include "tutti/distribute/strategy.h"

namespace tutti {

Tensor Strategy::reduce(ReduceOp op, const Tensor& value) const {
  if (op == ReduceOp::sum && num_replicas_in_sync() > 1)
    throw Error(ErrorCode::invalid_argument,
                str("reduce: a value that is not per replica cannot be summed over ", num_replicas_in_sync(),
                    " replicas; pass what run returned, or take the mean"));
  return value;
}

}  // namespace tutti
