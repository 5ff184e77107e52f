#include "tutti/distribute/nccl_all_reduce.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

NcclAllReduce::NcclAllReduce(NcclAllReduceOptions options) {
  if (options.num_packs < 0)
    throw Error(ErrorCode::invalid_argument, str("NcclAllReduce: num_packs is ", options.num_packs,
                                                 "; it must be 0, for no packing, or the number of packs"));
  backend_ = make_nccl_backend(options);
}

std::vector<std::vector<Tensor>> NcclAllReduce::batch_reduce_implementation(
    ReduceOp op, std::span<const ReduceRequest> requests) const {
  return backend_->batch_reduce(op, {requests.begin(), requests.end()});
}

}  // namespace tutti
