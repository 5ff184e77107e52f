#include "tutti/collectives/nccl/communicator.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "tutti/collectives/local/half.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::nccl {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kTimeToLeave = 2s;

// Who waits yields for so long between two looks, then sleeps for a part of the time that it has waited.
constexpr auto kYielding = 200us;
constexpr Clock::duration kShortestNap = 50us, kLongestNap = 1ms;

// How NCCL adds a dtype; a complex number is two real ones.
struct Summand {
  abi::DataType type;
  int per_element = 1;
};

std::optional<Summand> summand_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32: return Summand{abi::DataType::float32};
    case Dtype::float64: return Summand{abi::DataType::float64};
    case Dtype::float16: return Summand{abi::DataType::float16};
    case Dtype::bfloat16: return Summand{abi::DataType::bfloat16};
    case Dtype::complex64: return Summand{abi::DataType::float32, 2};
    case Dtype::complex128: return Summand{abi::DataType::float64, 2};
    case Dtype::int8: return Summand{abi::DataType::int8};
    case Dtype::uint8: return Summand{abi::DataType::uint8};
    case Dtype::int32: return Summand{abi::DataType::int32};
    case Dtype::int64: return Summand{abi::DataType::int64};
    case Dtype::int16: break;
  }
  return {};
}

bool is_sum(const Collective& call) {
  return call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce_scatter;
}

// What is only moved is bytes for NCCL, whatever its dtype.
size_t bytes_of(const Collective& call) { return static_cast<size_t>(call.count) * size_of(call.dtype); }

// What each input is multiplied by before it is added, where a sum is divided.
class Scaled {
 public:
  Scaled(const Library& library, abi::Communicator* communicator, abi::DataType type, double factor)
      : library_(library), communicator_(communicator) {
    union {
      float float32;
      double float64;
      Half float16;
      BFloat16 bfloat16;
    } scalar;
    if (type == abi::DataType::float64) scalar.float64 = factor;
    if (type == abi::DataType::float32) scalar.float32 = static_cast<float>(factor);
    if (type == abi::DataType::float16) scalar.float16 = to_half(static_cast<float>(factor));
    if (type == abi::DataType::bfloat16) scalar.bfloat16 = to_bfloat16(static_cast<float>(factor));
    library.check(library.call.RedOpCreatePreMulSum(&reduction_, &scalar, type, abi::Residence::host, communicator),
                  "ncclRedOpCreatePreMulSum", communicator);
  }
  // A call that was begun has its own copy.
  ~Scaled() { library_.call.RedOpDestroy(reduction_, communicator_); }
  Scaled(const Scaled&) = delete;
  Scaled& operator=(const Scaled&) = delete;

  abi::Reduction reduction() const { return reduction_; }

 private:
  const Library& library_;
  abi::Communicator* const communicator_;
  abi::Reduction reduction_ = abi::kSum;
};

}  // namespace

void rest_from_looking(Clock::duration waited) {
  if (waited < kYielding)
    sched_yield();
  else
    std::this_thread::sleep_for(std::clamp(waited / 16, kShortestNap, kLongestNap));
}

std::string gpu_name(c10::Device device) { return str("GPU:", static_cast<int>(device.index())); }

bool is_summable(Dtype dtype) { return summand_of(dtype).has_value(); }

void require_summable(const Collective& call) {
  if (is_sum(call) && !is_summable(call.dtype))
    throw Error(ErrorCode::unimplemented,
                str(to_string(call), ": NCCL does not add ", to_string(call.dtype), "; convert it to int32 first"),
                call.where);
}

Communicator::Communicator(const Library& library, const abi::UniqueId& id, int rank, int size)
    : library_(library), rank_(rank), size_(size) {
  abi::Config config;
  const abi::Result result = library_.call.CommInitRankConfig(&communicator_, size, id, rank, &config);
  try {
    check(result, "ncclCommInitRankConfig");
  } catch (...) {
    abort();
    throw;
  }
}

bool Communicator::is_settled() const {
  abi::Result state = abi::Result::success;
  check(library_.call.CommGetAsyncError(communicator_, &state), "ncclCommGetAsyncError");
  check(state, "what was begun");
  return state == abi::Result::success;
}

void Communicator::start(const Collective& call, abi::Stream stream) {
  const abi::Functions& nccl = library_.call;
  const auto move_bytes = [&](auto function, const char* name, auto... arguments) {
    check(function(arguments..., communicator_, stream), name);
  };
  constexpr abi::DataType kBytes = abi::DataType::uint8;
  switch (call.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter: return start_sum(call, stream);
    case CollectiveKind::all_to_all: return exchange_parts(call, stream);
    case CollectiveKind::all_gather:
      return move_bytes(nccl.AllGather, "ncclAllGather", call.input, call.output, bytes_of(call), kBytes);
    case CollectiveKind::broadcast:  // others than the root have no input
      return move_bytes(nccl.Broadcast, "ncclBroadcast", call.peer == rank_ ? call.input : call.output, call.output,
                        bytes_of(call), kBytes, call.peer);
    case CollectiveKind::send: return move_bytes(nccl.Send, "ncclSend", call.input, bytes_of(call), kBytes, call.peer);
    case CollectiveKind::receive:
      return move_bytes(nccl.Recv, "ncclRecv", call.output, bytes_of(call), kBytes, call.peer);
    case CollectiveKind::barrier: return;
  }
}

void Communicator::start_sum(const Collective& call, abi::Stream stream) {
  const Summand summand = summand_of(call.dtype).value();
  std::optional<Scaled> scaled;
  if (call.divisor != 1) scaled.emplace(library_, communicator_, summand.type, 1 / call.divisor);
  const abi::Reduction reduction = scaled ? scaled->reduction() : abi::kSum;
  const bool scatters = call.kind == CollectiveKind::reduce_scatter;
  const auto function = scatters ? library_.call.ReduceScatter : library_.call.AllReduce;
  check(function(call.input, call.output, static_cast<size_t>(call.count * summand.per_element), summand.type,
                 reduction, communicator_, stream),
        scatters ? "ncclReduceScatter" : "ncclAllReduce");
}

// All sends and receives at once: one after the other, two members would wait for each other.
void Communicator::exchange_parts(const Collective& call, abi::Stream stream) {
  const abi::Functions& nccl = library_.call;
  const size_t bytes = bytes_of(call);
  check(nccl.GroupStart(), "ncclGroupStart");
  abi::Result failed = abi::Result::success;
  const auto keep = [&](abi::Result result) {
    if (failed == abi::Result::success && result != abi::Result::in_progress) failed = result;
  };
  for (int peer = 0; peer < size_; ++peer) {
    const size_t place = static_cast<size_t>(peer) * bytes;
    keep(nccl.Send(static_cast<const std::byte*>(call.input) + place, bytes, abi::DataType::uint8, peer, communicator_,
                   stream));
    keep(nccl.Recv(static_cast<std::byte*>(call.output) + place, bytes, abi::DataType::uint8, peer, communicator_,
                   stream));
  }
  const abi::Result ended = nccl.GroupEnd();  // also after a failure, or the thread would stay in the group
  check(failed, "ncclSend and ncclRecv");
  check(ended, "ncclGroupEnd");
}

void Communicator::abort() noexcept {
  if (communicator_) library_.call.CommAbort(std::exchange(communicator_, nullptr));
}

void Communicator::begin_to_leave() noexcept {
  if (!communicator_ || is_leaving_) return;
  is_leaving_ = true;
  give_up_unless([&] { check(library_.call.CommFinalize(communicator_), "ncclCommFinalize"); });
}

void Communicator::leave() {
  const auto deadline = Clock::now() + kTimeToLeave;
  while (!is_settled()) {
    if (Clock::now() > deadline) throw Error(ErrorCode::deadline_exceeded, "NCCL does not let go of its members");
    std::this_thread::sleep_for(100us);
  }
  check(library_.call.CommDestroy(std::exchange(communicator_, nullptr)), "ncclCommDestroy");
}

void Communicator::give_up_unless(FunctionRef<void()> step) noexcept {
  try {
    step();
  } catch (const std::exception& error) {
    warn(str("while rank ", rank_, " left the others: ", error.what()));
    abort();
  }
}

Communicator::~Communicator() {
  begin_to_leave();
  if (communicator_) give_up_unless([&] { leave(); });
}

}  // namespace tutti::nccl
