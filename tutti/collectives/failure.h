#pragma once

#include <exception>

namespace tutti {

// What ended a run of several replicas.
struct Failure {
  std::exception_ptr exception;  // null: nothing failed
  int replica = -1;              // whose it was; -1: of all replicas together, as when their calls do not match
};

// Throws failure.exception, unchanged, after noting whose it was for replica_of.
[[noreturn]] void rethrow(const Failure& failure);

// Whose exception it was, or -1 if it is not the failure that was last rethrown on this thread, or was nobody's alone.
int replica_of(const std::exception_ptr& exception);

}  // namespace tutti
