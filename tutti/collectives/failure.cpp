#include "tutti/collectives/failure.h"

namespace tutti {
namespace {

// An exception that is rethrown unchanged can bear no mark, so the thread that catches it remembers the last one.
// Holding the exception keeps its address from being used again.
thread_local Failure last_failure;

}  // namespace

void rethrow(const Failure& failure) {
  last_failure = failure;
  std::rethrow_exception(failure.exception);
}

int replica_of(const std::exception_ptr& exception) {
  return exception && exception == last_failure.exception ? last_failure.replica : -1;
}

}  // namespace tutti
