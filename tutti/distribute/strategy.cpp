#include "tutti/distribute/strategy.h"

namespace tutti {

Tensor Strategy::reduce(ReduceOp op, const Tensor& value) const {
  require_cross_replica("reduce");
  if (op == ReduceOp::sum && num_replicas_in_sync() > 1)
    throw Error(ErrorCode::invalid_argument,
                str("reduce: a value that is not per replica cannot be summed over ", num_replicas_in_sync(),
                    " replicas; pass what run returned, or take the mean"));
  return value;
}

void Strategy::refuse_other_strategy(const char* call, std::source_location location) const {
  const auto& context = DistributionContext::current();
  if (!context.strategy || context.strategy == this) return;
  const auto at = [](std::source_location where) { return where.line() ? " at " + to_string(where) : ""; };
  throw Error(ErrorCode::failed_precondition,
              str(call, " of a ", name(), at(location), ": this thread is in the ",
                  context.replica < 0 ? "scope" : str("run (replica ", context.replica, ")"),
                  " of another strategy, a ", context.strategy->name(), at(context.entered_at), "; leave it first"),
              location);
}

void Strategy::require_cross_replica(const char* call) const {
  refuse_other_strategy(call);
  if (const int replica = DistributionContext::current().replica; replica >= 0)
    throw Error(ErrorCode::failed_precondition,
                str(call, ": called by replica ", replica, " of a ", name(),
                    "; it speaks for all replicas: call it outside of run, or in the function of a merge_call"));
}

}  // namespace tutti
