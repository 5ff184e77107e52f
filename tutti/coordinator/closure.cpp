#include "tutti/coordinator/closure.h"

#include "tutti/core/error.h"
#include "tutti/distribute/current_worker.h"

namespace tutti::coordinator {

std::exception_ptr Closure::call(int worker) {
  std::exception_ptr error;
  try {
    run(worker);
  } catch (...) {
    error = std::current_exception();
  }
  drop_arguments();
  end(error);
  return error;
}

void Closure::cancel() {
  drop_arguments();
  end(std::make_exception_ptr(
      Error(ErrorCode::cancelled,
            "ClusterCoordinator: the function was cancelled before it began, because another one "
            "failed, or because the coordinator ended")));
}

namespace {

[[noreturn]] void refuse_elsewhere() {
  throw Error(ErrorCode::internal, "ClusterCoordinator: a function of this process is to be called in another one");
}

}  // namespace

void Closure::write_message(ByteWriter&) const { refuse_elsewhere(); }
void Closure::read_result(ByteReader&) { refuse_elsewhere(); }

void Closure::receive(ByteReader& result) {
  read_result(result);
  drop_arguments();
  end(nullptr);
}

void Closure::fail(std::exception_ptr error) {
  drop_arguments();
  end(std::move(error));
}

void Closure::end(std::exception_ptr error) {
  error_ = std::move(error);
  ended_.store(1, std::memory_order_release);
  ended_.notify_all();
}

void Closure::wait() const {
  if (!ready() && WorkerGuard::current() >= 0)
    throw Error(ErrorCode::failed_precondition,
                "RemoteValue::fetch: a worker's function waits for another one; fetch values on the coordinator, and "
                "schedule what needs them then");
  ended_.wait(0, std::memory_order_acquire);
  if (error_) std::rethrow_exception(error_);
}

}  // namespace tutti::coordinator
