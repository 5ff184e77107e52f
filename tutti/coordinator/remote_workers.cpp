#include "tutti/coordinator/remote_workers.h"

#include <exception>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/servers/message.h"

namespace tutti::coordinator {

using servers::Kind;
using servers::Link;

RemoteWorkers::RemoteWorkers(servers::ServedTraining& training, const NamedFunctions& named, ClosureQueue& queue,
                             size_t window)
    : training_(training),
      named_(named),
      queue_(queue),
      window_(window),
      calls_(training.calls()),
      num_left_(training.links().num_workers() - static_cast<int>(calls_.lost_workers.size())) {
  if (num_left_ == 0)
    queue_.break_with(std::make_exception_ptr(
        Error(ErrorCode::unavailable, "ClusterCoordinator: no worker is left; start all tasks again")));
  for (int worker = 0; worker < training.links().num_workers(); ++worker)
    if (!is_lost(worker)) threads_.emplace_back([this, worker] { serve(worker); });
}

RemoteWorkers::~RemoteWorkers() {
  for (std::thread& thread : threads_) thread.join();
}

void RemoteWorkers::begin_run() {
  training_.settle();
  ByteWriter writer = servers::message_of(Kind::begin);
  const auto lines = named_.describe(training_.state());
  writer.number(static_cast<int64_t>(lines.size()));
  for (const std::string& line : lines) writer.text(line);
  tell_all(writer.bytes());
  const auto deadline = Link::Clock::now() + training_.links().options().connect_timeout;
  const auto require_ready = [&](Link& link) {
    const Bytes answer = link.receive(deadline);
    ByteReader reader(answer, str("the answer of ", link.name()));
    servers::require_done(reader);
    reader.finish();
  };
  for (const auto& link : training_.links().servers()) require_ready(*link);
  for (int worker = 0; worker < training_.links().num_workers(); ++worker) {
    if (is_lost(worker)) continue;
    try {
      require_ready(*training_.links().workers()[static_cast<size_t>(worker)]);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;  // its thread will find it lost
    }
  }
  training_.begin_functions();
  const std::lock_guard lock(values_);
  training_.coordinator().pull();
  has_changed_ = false;
}

void RemoteWorkers::end_run(const Bytes& result) {
  training_.end_functions();
  ByteWriter writer = servers::message_of(Kind::end);
  writer.number(1);
  writer.text({reinterpret_cast<const char*>(result.data()), result.size()});
  tell_all(writer.bytes());
}

void RemoteWorkers::fail_run(const std::exception_ptr& error) {
  training_.end_functions();
  ByteWriter writer = servers::message_of(Kind::end);
  writer.number(0);
  servers::write_error(writer, error, "the coordinator's function");
  tell_all(writer.bytes());
}

void RemoteWorkers::tell_all(const Bytes& message) {
  for (const auto* links : {&training_.links().workers(), &training_.links().servers()})
    for (const auto& link : *links) link->send(message);
}

void RemoteWorkers::before_functions() {
  const std::lock_guard lock(values_);
  if (has_changed_) return;
  try {
    training_.coordinator().push_writes();
  } catch (const servers::ServerLost&) {
    queue_.break_with(std::current_exception());
    throw;
  }
  has_changed_ = true;
}

void RemoteWorkers::after_functions() {
  const std::lock_guard lock(values_);
  if (!std::exchange(has_changed_, false)) return;
  {
    const std::lock_guard open(mutex_);
    open_.clear();  // those that were cancelled after their worker was lost
  }
  try {
    training_.coordinator().pull();
  } catch (const servers::ServerLost&) {
    queue_.break_with(std::current_exception());
    throw;
  }
}

// A worker's thread.
void RemoteWorkers::serve(int worker) {
  ClosureQueue::Batch batch;
  while (queue_.take(batch, window_, static_cast<size_t>(std::max(1, num_left_.load())))) {
    size_t num_ended = 0;
    try {
      call(worker, batch, num_ended);
    } catch (const Error& error) {
      return lose(worker, error, batch, num_ended);
    }
    queue_.finish(batch);
  }
}

void RemoteWorkers::call(int worker, ClosureQueue::Batch& batch, size_t& num_ended) {
  if (queue_.is_cancelled(batch)) {
    for (const auto& closure : batch.closures) closure->cancel();
    return;
  }
  Link& link = *training_.links().workers()[static_cast<size_t>(worker)];
  link.send(message_of(batch));
  for (; num_ended < batch.closures.size(); ++num_ended) end(*batch.closures[num_ended], link.receive());
}

Bytes RemoteWorkers::message_of(const ClosureQueue::Batch& batch) {
  ByteWriter writer = servers::message_of(Kind::call);
  const std::lock_guard lock(mutex_);
  for (const auto& closure : batch.closures) {
    if (closure->number == 0) closure->number = ++calls_.last_number;
    open_.insert(closure->number);
  }
  writer.number(*open_.begin());
  writer.number(static_cast<int64_t>(batch.closures.size()));
  for (const auto& closure : batch.closures) {
    writer.number(closure->number);
    writer.raw(closure->message().data(), closure->message().size());
  }
  return writer.bytes();
}

bool RemoteWorkers::is_lost(int worker) {
  const std::lock_guard lock(mutex_);
  return calls_.lost_workers.contains(worker);
}

void RemoteWorkers::forget(const Closure& closure) {
  const std::lock_guard lock(mutex_);
  open_.erase(closure.number);
}

// By what its worker answers.
void RemoteWorkers::end(Closure& closure, const Bytes& answer) {
  ByteReader reader(answer, "the answer of a worker");
  const Kind kind = servers::read_kind(reader);
  if (kind != Kind::done && kind != Kind::failed && kind != Kind::skipped) reader.damaged("it is none");
  std::exception_ptr error;
  if (kind == Kind::failed) error = servers::read_error(reader);
  forget(closure);
  if (kind == Kind::skipped) return closure.cancel();
  if (kind == Kind::done) {
    try {
      return closure.receive(reader);
    } catch (...) {
      error = std::current_exception();
    }
  }
  closure.fail(error);
  try {
    std::rethrow_exception(error);
  } catch (const servers::ServerLost&) {
    queue_.break_with(error);
  } catch (...) {
    queue_.fail(error);
  }
}

void RemoteWorkers::lose(int worker, const Error& error, ClosureQueue::Batch& batch, size_t num_ended) {
  const std::vector<std::shared_ptr<Closure>> again(batch.closures.begin() + static_cast<std::ptrdiff_t>(num_ended),
                                                    batch.closures.end());
  {
    const std::lock_guard lock(mutex_);
    calls_.lost_workers.insert(worker);
  }
  const int num_left = --num_left_;
  if (num_left == 0)
    queue_.break_with(std::make_exception_ptr(
        Error(ErrorCode::unavailable, str("ClusterCoordinator: no worker is left; the last one: ", error.what()))));
  else
    warn(str("ClusterCoordinator: ", error.what(), "; ", again.size(), " functions of worker ", worker,
             " are called again by the ", num_left, " workers that are left"));
  queue_.put_back(batch, again);
}

}  // namespace tutti::coordinator
