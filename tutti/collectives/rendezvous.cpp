#include "tutti/collectives/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/device/spin.h"

namespace tutti {
namespace {

bool same_operation(const Operation& a, const Operation& b) {
  return a.key == b.key && a.payload_type == b.payload_type && (a.name == b.name || std::strcmp(a.name, b.name) == 0);
}

// "all_reduce (train.cpp:31)", with the key if there is one.
std::string describe(const Operation& operation) {
  return str(operation.name, operation.key == 0 ? "" : str(" #", operation.key), " (", to_string(operation.location),
             ')');
}

std::string describe(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace

Rendezvous::Rendezvous(int num_replicas, RendezvousOptions options)
    : options_(options), spin_(spin_limit(num_replicas)), num_computing_(num_replicas) {
  if (num_replicas < 1)
    throw Error(ErrorCode::invalid_argument, str("Rendezvous: ", num_replicas, " replicas; at least 1 is needed"));
  slots_.resize(static_cast<size_t>(num_replicas));
  payloads_.resize(static_cast<size_t>(num_replicas));
}

void Rendezvous::arrive(int replica, const Operation& operation, Action action) {
  Lock lock = this->lock();
  Slot& slot = computing_slot(replica, operation.name);
  if (first_failure_.exception) {
    slot.outcome = Outcome::cancelled;
  } else {
    slot.operation = &operation;
    payloads_[static_cast<size_t>(replica)] = operation.payload;
    stop_computing(slot, State::waiting);
    if (all_wait_in_one_operation()) {
      meet(lock, action);
    } else if (!refuse_if_nobody_computes(lock)) {
      wait(lock);
    }
  }
  if (slot.outcome == Outcome::error) std::rethrow_exception(std::exchange(slot.error, nullptr));
  if (slot.outcome == Outcome::cancelled)
    throw Error(ErrorCode::cancelled,
                str(describe(operation), ": replica ", replica, " cannot go on, because replica ", first_failed_,
                    " failed: ", failure_text_),
                operation.location);
}

void Rendezvous::finish(int replica) {
  Lock lock = this->lock();
  stop_computing(computing_slot(replica, "finish"), State::finished);
  refuse_if_nobody_computes(lock);
}

void Rendezvous::fail(int replica, std::exception_ptr exception) {
  std::string text = describe(exception);
  Lock lock = this->lock();
  stop_computing(computing_slot(replica, "fail"), State::failed);
  if (first_failure_.exception) return;
  first_failed_ = replica;
  failure_text_ = std::move(text);
  first_failure_ = {.exception = exception, .replica = exception == common_error_ ? -1 : replica};
  release(lock, Outcome::cancelled);
}

void Rendezvous::reset() {
  const Failure failure = std::exchange(first_failure_, {});  // outlive the lock: their destructors may be the user's
  const std::exception_ptr error = std::exchange(common_error_, nullptr);
  const Lock lock = this->lock();
  for (Slot& slot : slots_) slot = {};
  num_computing_ = num_replicas();
}

// The lock is held for so short a time that sleeping on it would cost more than waiting for it.
Rendezvous::Lock Rendezvous::lock() {
  Lock lock(mutex_, std::defer_lock);
  if (!spin_until([&] { return lock.try_lock(); }, spin_)) lock.lock();
  return lock;
}

Rendezvous::Slot& Rendezvous::computing_slot(int replica, const char* caller) {
  if (replica < 0 || replica >= num_replicas())
    throw Error(ErrorCode::internal, str(caller, ": replica ", replica, " of ", num_replicas()));
  Slot& slot = slots_[static_cast<size_t>(replica)];
  if (slot.state == State::waiting)
    throw Error(ErrorCode::failed_precondition, str(caller, ": replica ", replica, " is in ", describe(*slot.operation),
                                                    " on another thread; a replica does one operation at a time"));
  if (slot.state != State::computing)
    throw Error(ErrorCode::failed_precondition, str(caller, ": the function of replica ", replica,
                                                    " has already ended; it must not leave threads behind"));
  return slot;
}

void Rendezvous::stop_computing(Slot& slot, State state) {
  slot.state = state;
  --num_computing_;
}

bool Rendezvous::all_wait_in_one_operation() const {
  return num_computing_ == 0 && std::ranges::all_of(slots_, [&](const Slot& slot) {
           return slot.state == State::waiting && same_operation(*slot.operation, *slots_.front().operation);
         });
}

// Unlocked, but alone: every other replica waits.
void Rendezvous::meet(Lock& lock, Action action) {
  lock.unlock();
  std::exception_ptr error;
  try {
    action(payloads_);
  } catch (...) {
    error = std::current_exception();
  }
  const Outcome outcome = error ? Outcome::error : Outcome::met;
  lock = this->lock();
  release(lock, outcome, std::move(error));
}

bool Rendezvous::refuse_if_nobody_computes(Lock& lock) {
  const auto waiting = std::ranges::find(slots_, State::waiting, &Slot::state);
  if (num_computing_ > 0 || waiting == slots_.end()) return false;
  const Error error(ErrorCode::failed_precondition,
                    str("the replicas do not meet: ", describe_replicas(),
                        "; every replica must make the same collective calls in the same order"),
                    waiting->operation->location);
  release(lock, Outcome::error, std::make_exception_ptr(error));
  return true;
}

void Rendezvous::wait(Lock& lock) {
  const uint32_t before = epoch_.value();
  lock.unlock();
  if (epoch_.wait_past(before, spin_, options_.warn_after)) return;
  warn_of_missing(before);
  epoch_.wait_past(before, std::chrono::nanoseconds(0));
}

// Lets all that wait go on. Unlocks before it wakes them.
void Rendezvous::release(Lock& lock, Outcome outcome, std::exception_ptr error) {
  for (Slot& slot : slots_) {
    if (slot.state != State::waiting) continue;
    slot.state = State::computing;
    slot.outcome = outcome;
    slot.error = error;
    ++num_computing_;
  }
  if (error)
    common_error_.swap(error);  // the one before ends with this call, unlocked: its destructor may be the user's
  warned_ = false;
  epoch_.advance();
  lock.unlock();
  epoch_.wake();
}

void Rendezvous::warn_of_missing(uint32_t epoch) noexcept {
  Lock lock = this->lock();
  const bool action_runs = num_computing_ == 0;
  if (epoch_.value() != epoch || action_runs || std::exchange(warned_, true)) return;
  const std::string text = describe_replicas();
  lock.unlock();
  warn(str("replicas have waited for others for ", options_.warn_after.count() / 1000.0, " s: ", text));
}

// "replicas [0, 2] wait in all_reduce (train.cpp:31); replicas [1] have finished; replicas [3] still compute".
std::string Rendezvous::describe_replicas() const {
  const auto doing = [](const Slot& slot) -> std::string {
    switch (slot.state) {
      case State::computing: return "still compute";
      case State::waiting: return "wait in " + describe(*slot.operation);
      case State::finished: return "have finished";
      case State::failed: return "have failed";
    }
    return "";
  };
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (int replica = 0; replica < num_replicas(); ++replica) {
    const std::string what = doing(slots_[static_cast<size_t>(replica)]);
    auto group = std::ranges::find(groups, what, &decltype(groups)::value_type::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {what, {}});
    group->second.push_back(replica);
  }
  std::string text;
  for (const auto& [what, replicas] : groups)
    text += str(text.empty() ? "" : "; ", "replicas ", str_list(replicas), ' ', what);
  return text;
}

}  // namespace tutti
