#include "tutti/collectives/nccl/nccl_group.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "tutti/collectives/nccl/communicator.h"
#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Members that have done their part of a call may leave while others still do theirs.
constexpr auto kTimeToEndWithout = 1s;

// A call that is as short as usual ends without a look at the others.
constexpr auto kWithoutALook = 200us;

// What a member tells the others before any of them begins to join.
struct Greeting {
  int32_t version = 0;          // of its NCCL; 0: it has none
  nccl::abi::UniqueId id = {};  // rank 0's is where all meet
  char failure[1024] = {};
};

using nccl::gpu_name;

void require_device(c10::Device device) {
  const bool is_known = c10::impl::hasDeviceGuardImpl(device.type());
  const int count = is_known ? c10::impl::getDeviceGuardImpl(device.type())->deviceCount() : 0;
  if (device.index() < 0 || device.index() >= count)
    throw Error(ErrorCode::not_found,
                str("CommunicationImplementation::nccl: there is no ", gpu_name(device), "; LibTorch sees ", count,
                    count == 1 ? " GPU" : " GPUs", ". It needs a CUDA build of LibTorch and a GPU for each process"));
}

const nccl::Library& prepare(Greeting& greeting, int rank, c10::Device device,
                             const cluster::Environment& environment) {
  require_device(device);
  const nccl::Library& library = nccl::load(environment);
  if (rank == 0) library.check(library.call.GetUniqueId(&greeting.id), "ncclGetUniqueId");
  greeting.version = library.version;
  return library;
}

void check_greetings(const std::vector<Greeting>& all, const Greeting& own) {
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Greeting& other = all[rank];
    if (other.version == 0)
      throw Error(ErrorCode::failed_precondition,
                  str("rank ", rank,
                      " cannot use NCCL: ", std::string(other.failure, strnlen(other.failure, sizeof other.failure))));
    if (other.version != own.version)
      throw Error(ErrorCode::failed_precondition,
                  str("rank ", rank, " has NCCL ", nccl::version_text(other.version), ", and this member ",
                      nccl::version_text(own.version), "; give all the same"));
  }
}

// All can use NCCL, the same, before anyone begins to join. Returns where they meet.
std::pair<const nccl::Library*, nccl::abi::UniqueId> greet(Group& companion, c10::Device device,
                                                           const cluster::Environment& environment) {
  Greeting own;
  const nccl::Library* library = nullptr;
  std::optional<Error> failure;
  try {
    library = &prepare(own, companion.rank(), device, environment);
  } catch (const Error& error) {
    failure = error;
    std::strncpy(own.failure, error.what(), sizeof own.failure - 1);
  }
  std::vector<Greeting> all(static_cast<size_t>(companion.size()));
  companion.run({.kind = CollectiveKind::all_gather,
                 .dtype = Dtype::uint8,
                 .count = sizeof own,
                 .input = &own,
                 .output = all.data(),
                 .name = "what of NCCL each member has"});
  if (failure) throw *failure;
  check_greetings(all, own);
  return {library, all[0].id};
}

class NcclGroup final : public Group {
 public:
  NcclGroup(std::unique_ptr<Group> companion, c10::Device device, const NcclGroupOptions& options,
            const cluster::Environment& environment)
      : Group(companion->rank(), companion->size()),
        companion_(std::move(companion)),
        device_(device),
        timeout_(options.timeout) {
    join(environment);
  }

  std::optional<int> device() const override { return device_.index(); }
  void abort(const std::string& cause) override { companion_->abort(cause); }
  std::optional<Error> obstacle_to(const Collective& call) override { return companion_->obstacle_to(call); }
  std::shared_ptr<std::byte> allocate_shared(size_t bytes) override { return companion_->allocate_shared(bytes); }
  size_t shared_bytes(const void* data) const override { return companion_->shared_bytes(data); }

 protected:
  void execute(const Collective& call) override;

 private:
  void join(const cluster::Environment& environment);
  void meet(const Collective& call);
  void move(const Collective& call);
  void wait_until(const Collective& call, FunctionRef<bool()> is_done);
  [[noreturn]] void end(const Error& failure);

  const std::unique_ptr<Group> companion_;
  const c10::Device device_;
  const std::chrono::milliseconds timeout_;
  std::optional<nccl::Communicator> communicator_;
  std::optional<c10::Event> done_;  // behind the call that is under way
  std::optional<Error> failure_;    // once set, unchanged
};

void NcclGroup::join(const cluster::Environment& environment) {
  const auto [library, id] = greet(*companion_, device_, environment);
  const Collective joining{.place = BufferPlace::nowhere, .name = "joining by NCCL"};
  try {
    const c10::DeviceGuard guard(device_);
    communicator_.emplace(*library, id, rank(), size());
    wait_until(joining, [&] { return communicator_->is_settled(); });
    done_.emplace(device_.type());
    companion_->run(joining);  // NCCL may tell one that all have joined, and another that they have not
  } catch (const Error& error) {
    const bool is_refused = error.code() == ErrorCode::failed_precondition;
    end(Error(error.code(),
              str("rank ", rank(), " of ", size(), " cannot join by NCCL with ", gpu_name(device_), ": ", error.what(),
                  is_refused ? "; each member needs a GPU of its own, and a driver for it" : "")));
  } catch (const c10::Error& error) {
    end(Error(ErrorCode::failed_precondition, str(gpu_name(device_), ": ", error.what_without_backtrace())));
  }
}

void NcclGroup::execute(const Collective& call) {
  if (failure_) throw Error(failure_->code(), failure_->what(), call.where);
  if (call.place == BufferPlace::device) nccl::require_summable(call);
  try {
    if (call.place != BufferPlace::device) return companion_->run(call);
    meet(call);
    if (call.count > 0 && call.kind != CollectiveKind::barrier) move(call);
  } catch (const Error& error) {
    end(error);
  } catch (const c10::Error& error) {
    end(Error(ErrorCode::failed_precondition,
              str(to_string(call), ", ", gpu_name(device_), ": ", error.what_without_backtrace()), call.where));
  }
}

void NcclGroup::meet(const Collective& call) {
  Collective meeting = call;
  meeting.place = BufferPlace::nowhere;
  companion_->run(meeting);
}

void NcclGroup::move(const Collective& call) {
  const c10::DeviceGuard guard(device_);
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const auto has_settled = [&] { return communicator_->is_settled(); };
  try {
    communicator_->start(call, stream.native_handle());
    wait_until(call, has_settled);
    done_->record(stream);  // not before NCCL has given the stream all of it
    wait_until(call, [&] { return has_settled() && done_->query(); });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::cancelled) throw;  // another member's failure, which names its call
    throw Error(error.code(), str("rank ", rank(), " of ", size(), ", ", to_string(call), ": ", error.what()),
                call.where);
  }
}

void NcclGroup::wait_until(const Collective& call, FunctionRef<bool()> is_done) {
  const auto begin = Clock::now();
  std::optional<Clock::time_point> without_since;
  while (!is_done()) {
    const auto now = Clock::now();
    const Clock::duration waited = now - begin;
    if (const auto obstacle = waited < kWithoutALook ? std::nullopt : companion_->obstacle_to(call)) {
      if (!without_since) without_since = now;
      if (obstacle->code() != ErrorCode::unavailable || now - *without_since > kTimeToEndWithout) throw *obstacle;
    }
    if (waited > timeout_)
      throw Error(ErrorCode::deadline_exceeded,
                  str("all members have come, and after ", timeout_.count(), " ms NCCL has not ended it; look at the ",
                      "GPUs and at what links them (NCCL_DEBUG=INFO), or raise CommunicationOptions::timeout"),
                  call.where);
    nccl::rest_from_looking(waited);
  }
}

// Ends this member's part, and the waiting of others.
void NcclGroup::end(const Error& failure) {
  failure_ = failure;
  if (communicator_) communicator_->abort();
  companion_->abort(failure.what());
  throw failure;
}

}  // namespace

std::unique_ptr<Group> nccl_group(std::unique_ptr<Group> companion, c10::Device device, const NcclGroupOptions& options,
                                  const cluster::Environment& environment) {
  return std::make_unique<NcclGroup>(std::move(companion), device, options, environment);
}

}  // namespace tutti
