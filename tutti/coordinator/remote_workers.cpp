#include "tutti/coordinator/remote_workers.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/servers/message.h"

namespace tutti::coordinator {

using servers::Kind;
using servers::Link;

namespace {

constexpr std::chrono::milliseconds kLookForReturn(50);
constexpr std::chrono::milliseconds kLongBatch(1);

int64_t least_number(const ClosureQueue::Batch& batch) {
  const auto number = [](const auto& closure) { return closure->number; };
  return number(*std::ranges::min_element(batch.closures, {}, number));
}

// Of who was told that a run begins.
void require_ready(Link& link, Link::Clock::time_point deadline) {
  const servers::Incoming answer = link.receive(deadline);
  ByteReader reader(answer, str("the answer of ", link.name()));
  servers::require_done(reader);
  reader.finish();
}

}  // namespace

RemoteWorkers::RemoteWorkers(servers::ServedTraining& training, const NamedFunctions& named, ClosureQueue& queue,
                             std::optional<size_t> window)
    : training_(training),
      named_(named),
      queue_(queue),
      least_window_(window.value_or(kWindow)),
      greatest_window_(window.value_or(kGreatestWindow)),
      calls_(training.calls()),
      num_left_(training.links().num_workers() - static_cast<int>(calls_.lost_workers.size())) {
  training.renew_servers_by([this](int server) { renew_server(server); });
  for (int worker = 0; worker < training.links().num_workers(); ++worker)
    threads_.emplace_back([this, worker] { serve(worker); });
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
  const std::vector<int> told = tell_of_begin(writer.bytes());
  const auto deadline = Link::Clock::now() + training_.links().options().connect_timeout;
  for (int server = 0; server < training_.links().num_servers(); ++server) {
    try {
      require_ready(*training_.links().servers()[static_cast<size_t>(server)], deadline);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;
      servers::connect_again([this](int lost) { renew_server(lost); }, server, error);
    }
  }
  for (const int worker : told) {
    try {
      require_ready(*training_.links().workers()[static_cast<size_t>(worker)], deadline);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;  // its thread will find it lost
    }
  }
  training_.begin_functions();
  const std::lock_guard lock(values_);
  training_.coordinator().pull(/*keeps_writes=*/true);
  has_changed_ = false;
}

void RemoteWorkers::end_run(const Bytes& result) {
  training_.end_functions();
  ByteWriter writer = servers::message_of(Kind::end);
  writer.number(1);
  writer.text({reinterpret_cast<const char*>(result.data()), result.size()});
  tell_of_end(writer.bytes());
}

void RemoteWorkers::fail_run(const std::exception_ptr& error) {
  training_.end_functions();
  ByteWriter writer = servers::message_of(Kind::end);
  writer.number(0);
  servers::write_error(writer, error, "the coordinator's function");
  tell_of_end(writer.bytes());
}

// Returns the workers whose answers nobody else waits for.
std::vector<int> RemoteWorkers::tell_of_begin(Bytes message) {
  const std::lock_guard lock(mutex_);
  begin_ = std::make_shared<const Bytes>(std::move(message));
  tell_all(begin_);
  for (auto& [worker, num_asked] : coming_) ++num_asked;
  std::vector<int> told;
  for (int worker = 0; worker < training_.links().num_workers(); ++worker)
    if (!calls_.lost_workers.contains(worker)) told.push_back(worker);
  return told;
}

void RemoteWorkers::tell_of_end(Bytes message) {
  const std::lock_guard lock(mutex_);
  begin_ = nullptr;
  calls_.ends.push_back(std::make_shared<const Bytes>(std::move(message)));
  tell_all(calls_.ends.back());
}

void RemoteWorkers::tell_all(const std::shared_ptr<const Bytes>& message) {
  for (const auto* links : {&training_.links().workers(), &training_.links().servers()})
    for (const auto& link : *links) link->send(message);
}

void RemoteWorkers::before_functions() {
  if (has_changed_) return;
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
  if (!has_changed_.exchange(false)) return;
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
  size_t window = least_window_;
  while (!is_lost(worker) || await(worker)) {
    ClosureQueue::Batch batch;
    if (!queue_.take(batch, window, static_cast<size_t>(std::max(1, num_left_.load())))) return;
    size_t num_ended = 0;
    const auto begin = Link::Clock::now();
    try {
      call(worker, batch, num_ended);
      const bool was_long = Link::Clock::now() - begin > kLongBatch;
      window = was_long ? least_window_ : std::min(2 * window, greatest_window_);
    } catch (const Error& error) {
      lose(worker, error, batch, num_ended);
    }
  }
}

// Until one that was lost is here again. False: the queue has ended, or is broken, as nobody came.
bool RemoteWorkers::await(int worker) {
  const auto limit = training_.links().options().silence;
  const auto until = Link::Clock::now() + limit;
  while (!queue_.wait_for_end(kLookForReturn)) {
    try {
      if (take_in(worker)) return true;
    } catch (const Error& error) {
      warn(str("ClusterCoordinator: worker ", worker, " has come again and is not taken in: ", error.what()));
    }
    if (num_left_ > 0 || Link::Clock::now() < until) continue;
    const std::lock_guard lock(mutex_);
    queue_.break_with(std::make_exception_ptr(
        Error(ErrorCode::unavailable, str("ClusterCoordinator: no worker is left, and none has come again in ",
                                          limit.count(), " ms; the last one: ", calls_.last_loss))));
    break;
  }
  return false;
}

// One that has come in another process makes what all have made, goes through the runs that are over, and then comes to
// the one that is under way. One that has come over another connection passes over what it knows of that.
bool RemoteWorkers::take_in(int worker) {
  Link& link = *training_.links().workers()[static_cast<size_t>(worker)];
  std::unique_lock lock(mutex_);
  if (!training_.renew_worker(worker)) return false;
  tell_of_runs(link);
  coming_[worker] = begin_ ? 1 : 0;
  for (; coming_[worker] > 0; --coming_[worker]) {
    lock.unlock();
    try {
      require_ready(link, Link::Clock::now() + training_.links().options().connect_timeout);
    } catch (...) {
      lock.lock();
      coming_.erase(worker);
      throw;
    }
    lock.lock();
  }
  coming_.erase(worker);
  calls_.lost_workers.erase(worker);
  warn(str("ClusterCoordinator: worker ", worker, " has come again; there are ", ++num_left_));
  return true;
}

// With the lock. To one that may have missed some of that.
void RemoteWorkers::tell_of_runs(Link& link) {
  for (const auto& end : calls_.ends) link.send(end);
  if (begin_) link.send(begin_);
}

// A server connects again by itself, as often as its connection is lost; so what waits at the door may be lost too.
void RemoteWorkers::renew_server(int server) {
  Link& link = *training_.links().servers()[static_cast<size_t>(server)];
  for (int renewals = 1;; ++renewals) {
    auto stream = training_.connect_to_server(server);
    {
      const std::lock_guard lock(mutex_);
      link.renew(std::move(stream));
      tell_of_runs(link);
      if (!begin_) return;
    }
    try {
      return require_ready(link, Link::Clock::now() + training_.links().options().connect_timeout);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable || renewals == servers::ServerRequests::kMaxRenewals) throw;
    }
  }
}

void RemoteWorkers::call(int worker, ClosureQueue::Batch& batch, size_t& num_ended) {
  if (queue_.is_cancelled(batch)) {
    for (const auto& closure : batch.closures) closure->cancel();
    return queue_.finish(batch);
  }
  Link& link = *training_.links().workers()[static_cast<size_t>(worker)];
  link.send(message_of(batch));
  size_t num_postponed = 0;  // the last ones
  while (num_ended + num_postponed < batch.closures.size()) {
    const servers::Incoming message = link.receive();
    ByteReader reader(message, "the answers of a worker");
    if (servers::read_kind(reader) != Kind::answers) reader.damaged("they are none");
    const auto num_left = static_cast<int64_t>(batch.closures.size() - num_ended - num_postponed);
    for (int64_t left = reader.number_in(1, num_left); left > 0; --left) {
      const auto size = static_cast<size_t>(reader.count(1));
      ByteReader answer({reader.raw(size), size}, "an answer");  // so short that it takes no memory
      const Kind kind = servers::read_kind(answer);
      if (kind == Kind::postponed) {
        ++num_postponed;
        continue;
      }
      if (num_postponed > 0) answer.damaged("a function was called after one that was not");
      end(*batch.closures[num_ended], kind, answer);
      ++num_ended;
    }
    reader.finish();
  }
  put_back(batch, num_ended);
}

// The first ones have ended, the rest are to be called again.
void RemoteWorkers::put_back(ClosureQueue::Batch& batch, size_t num_ended) {
  const std::vector<std::shared_ptr<Closure>> again(batch.closures.begin() + static_cast<std::ptrdiff_t>(num_ended),
                                                    batch.closures.end());
  {
    const std::lock_guard lock(mutex_);
    open_.erase(least_number(batch));
    for (const auto& closure : again) open_.insert(closure->number);
  }
  if (again.empty())
    queue_.finish(batch);
  else
    queue_.put_back(batch, again);
}

Bytes RemoteWorkers::message_of(const ClosureQueue::Batch& batch) {
  ByteWriter writer = servers::message_of(Kind::call);
  {
    const std::lock_guard lock(mutex_);
    for (const auto& closure : batch.closures) {
      if (closure->number == 0)
        closure->number = ++calls_.last_number;
      else
        open_.erase(closure->number);  // of a worker that was lost
    }
    open_.insert(least_number(batch));
    writer.number(*open_.begin());
  }
  writer.number(static_cast<int64_t>(batch.closures.size()));
  for (const auto& closure : batch.closures) {
    writer.number(closure->number);
    closure->write_message(writer);
  }
  return writer.bytes();
}

bool RemoteWorkers::is_lost(int worker) {
  const std::lock_guard lock(mutex_);
  return calls_.lost_workers.contains(worker);
}

// By what its worker answers.
void RemoteWorkers::end(Closure& closure, Kind kind, ByteReader& reader) {
  if (kind != Kind::done && kind != Kind::failed && kind != Kind::skipped) reader.damaged("it is none");
  std::exception_ptr error;
  if (kind == Kind::failed) error = servers::read_error(reader);
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
  {
    const std::lock_guard lock(mutex_);
    calls_.lost_workers.insert(worker);
    calls_.last_loss = error.what();
  }
  warn(str("ClusterCoordinator: ", error.what(), "; ", batch.closures.size() - num_ended, " functions of worker ",
           worker, " are called again by the ", --num_left_, " workers that are left, or by one that comes again"));
  put_back(batch, num_ended);
}

}  // namespace tutti::coordinator
