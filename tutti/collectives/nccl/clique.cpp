#include "tutti/collectives/nccl/clique.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <exception>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::nccl {
namespace {

std::timed_mutex& turns_of_cliques() {
  static auto& mutex = *new std::timed_mutex;  // cliques may end while the process does
  return mutex;
}

template <class Predicate>
std::string names_of(const std::vector<c10::Device>& devices, Predicate is_named) {
  std::string names;
  for (size_t i = 0; i < devices.size(); ++i)
    if (is_named(i)) names += (names.empty() ? "" : ", ") + gpu_name(devices[i]);
  return names;
}

}  // namespace

Clique::Clique(const Library& library, std::vector<c10::Device> devices, std::chrono::milliseconds timeout)
    : library_(library), devices_(std::move(devices)), timeout_(timeout) {
  const Turn turn = wait_for_turn();
  or_end([&] { join(); });
}

// All begin to leave before one waits for that.
Clique::~Clique() {
  for (Communicator& communicator : communicators_) communicator.begin_to_leave();
}

Clique::Turn Clique::wait_for_turn() const {
  Turn turn(turns_of_cliques(), timeout_);
  if (turn) return turn;
  throw Error(ErrorCode::deadline_exceeded,
              str("another sum by NCCL has not ended within ", timeout_.count(), " ms; raise the timeout"));
}

void Clique::join() {
  abi::UniqueId id;
  library_.check(library_.call.GetUniqueId(&id), "ncclGetUniqueId");
  const int size = static_cast<int>(devices_.size());
  group_calls([&] {
    for (int rank = 0; rank < size; ++rank) {
      const auto device = static_cast<size_t>(rank);
      const c10::DeviceGuard guard(devices_[device]);
      naming(device, [&] { communicators_.emplace_back(library_, id, rank, size); });
    }
  });
  for (const c10::Device device : devices_) {
    came_.emplace_back(device.type());
    done_.emplace_back(device.type());
  }
  wait_for_all([&](size_t i) { return is_settled(i); },
               [&] {
                 const auto is_missing = [&](size_t i) { return !is_settled(i); };
                 return names_of(devices_, is_missing) + " has not joined";
               });
}

void Clique::sum(std::span<const Pack> packs) {
  const Turn turn = wait_for_turn();
  if (communicators_.empty())
    throw Error(ErrorCode::failed_precondition, "an earlier failure has ended these GPUs' communication by NCCL");
  or_end([&] {
    streams_.clear();
    for (size_t i = 0; i < devices_.size(); ++i) {
      streams_.push_back(c10::impl::VirtualGuardImpl(devices_[i].type()).getStream(devices_[i]));
      came_[i].record(streams_[i]);
    }
    const auto describe = [&] { return describe_wait(); };
    group_calls([&] {
      for (size_t i = 0; i < devices_.size(); ++i) naming(i, [&] { start(i, packs); });
    });
    wait_for_all([&](size_t i) { return is_settled(i); }, describe);
    for (size_t i = 0; i < devices_.size(); ++i) done_[i].record(streams_[i]);  // NCCL has given the stream all of it
    wait_for_all([&](size_t i) { return is_settled(i) && done_[i].query(); }, describe);
  });
}

void Clique::start(size_t device, std::span<const Pack> packs) {
  const c10::DeviceGuard guard(devices_[device]);
  for (const Pack& pack : packs)
    communicators_[device].start({.kind = CollectiveKind::all_reduce,
                                  .dtype = pack.dtype,
                                  .count = pack.count,
                                  .input = pack.buffers[device],
                                  .output = pack.buffers[device],
                                  .place = BufferPlace::device},
                                 streams_[device].native_handle());
}

// Calls of one thread for several devices must be a group: one after the other, the first would wait for the second.
void Clique::group_calls(FunctionRef<void()> calls) const {
  library_.check(library_.call.GroupStart(), "ncclGroupStart");
  std::exception_ptr failed;
  try {
    calls();
  } catch (...) {
    failed = std::current_exception();
  }
  const abi::Result ended = library_.call.GroupEnd();  // also after a failure, or the thread would stay in the group
  if (failed) std::rethrow_exception(failed);
  library_.check(ended, "ncclGroupEnd");
}

void Clique::wait_for_all(FunctionRef<bool(size_t)> has_ended, FunctionRef<std::string()> failure) {
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    size_t num_ended = 0;
    for (size_t i = 0; i < devices_.size(); ++i) num_ended += has_ended(i) ? 1 : 0;
    if (num_ended == devices_.size()) return;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > timeout_)
      throw Error(ErrorCode::deadline_exceeded, str("after ", timeout_.count(), " ms ", failure()));
    rest_from_looking(waited);
  }
}

bool Clique::is_settled(size_t device) const {
  bool settled = false;
  naming(device, [&] { settled = communicators_[device].is_settled(); });
  return settled;
}

void Clique::naming(size_t device, FunctionRef<void()> step) const {
  try {
    step();
  } catch (const Error& error) {
    throw Error(error.code(), str(gpu_name(devices_[device]), ": ", error.what()));
  }
}

// A device whose stream has not come to the sum keeps the others waiting in it.
std::string Clique::describe_wait() const {
  const std::string late = names_of(devices_, [&](size_t i) { return !came_[i].query(); });
  if (!late.empty())
    return late + " has not come: its stream still does what it was given before; raise the timeout if that takes long";
  return str(names_of(devices_, [&](size_t i) { return !is_settled(i) || !done_[i].query(); }),
             ": all have come, and NCCL has not ended it; look at the GPUs and at what links them (NCCL_DEBUG=INFO)");
}

void Clique::or_end(FunctionRef<void()> steps) {
  try {
    steps();
  } catch (const Error& error) {
    end(error.code(), error.what());
  } catch (const c10::Error& error) {
    end(ErrorCode::failed_precondition, error.what_without_backtrace());
  }
}

void Clique::end(ErrorCode code, const std::string& failure) {
  for (Communicator& communicator : communicators_) communicator.abort();
  communicators_.clear();
  const std::string all = names_of(devices_, [](size_t) { return true; });
  throw Error(code, str("NCCL between ", all, ": ", failure));
}

}  // namespace tutti::nccl
