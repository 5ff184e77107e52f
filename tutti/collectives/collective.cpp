#include "tutti/collectives/collective.h"

#include <cmath>
#include <functional>
#include <limits>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

// How many times `count` elements a buffer of the call holds.
struct Extents {
  int input = 0;
  int output = 0;
};

Extents extents_of(const Collective& call, int rank, int size) {
  if (call.place == BufferPlace::nowhere) return {0, 0};
  switch (call.kind) {
    case CollectiveKind::all_reduce: return {1, 1};
    case CollectiveKind::reduce_scatter: return {size, 1};
    case CollectiveKind::all_gather: return {1, size};
    case CollectiveKind::all_to_all: return {size, size};
    case CollectiveKind::broadcast: return {call.peer == rank ? 1 : 0, 1};
    case CollectiveKind::send: return {1, 0};
    case CollectiveKind::receive: return {0, 1};
    case CollectiveKind::barrier: return {0, 0};
  }
  return {};
}

bool overlap(const void* a, const void* b, size_t num_bytes) {
  const auto *first = static_cast<const std::byte*>(a), *second = static_cast<const std::byte*>(b);
  const std::less<> before;
  return before(first, second + num_bytes) && before(second, first + num_bytes);
}

}  // namespace

// As it stands behind a call. Those who only meet do so for a device.
std::string_view to_string(BufferPlace place) {
  switch (place) {
    case BufferPlace::host: return "";
    case BufferPlace::shared: return ", in shared memory";
    case BufferPlace::device:
    case BufferPlace::nowhere: return ", in device memory";
  }
  return ", nowhere";
}

std::string_view to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "all_reduce";
    case CollectiveKind::reduce_scatter: return "reduce_scatter";
    case CollectiveKind::all_gather: return "all_gather";
    case CollectiveKind::all_to_all: return "all_to_all";
    case CollectiveKind::broadcast: return "broadcast";
    case CollectiveKind::send: return "send";
    case CollectiveKind::receive: return "receive";
    case CollectiveKind::barrier: return "barrier";
  }
  return "unknown";
}

std::string to_string(const Collective& call) { return to_string(call, to_string(call.where)); }

std::string to_string(const Collective& call, const std::string& where) {
  std::string text(to_string(call.kind));
  if (call.kind == CollectiveKind::broadcast || call.kind == CollectiveKind::receive)
    text += str(" from rank ", call.peer);
  if (call.kind == CollectiveKind::send) text += str(" to rank ", call.peer);
  if (call.kind != CollectiveKind::barrier) text += str(" of ", call.count, ' ', to_string(call.dtype));
  if (call.divisor != 1) text += str(" divided by ", call.divisor);
  if (*call.name != 0) text += str(" '", call.name, "'");
  return str(text, " at ", where, to_string(call.place));
}

bool is_between_two(const Collective& call) {
  return call.kind == CollectiveKind::send || call.kind == CollectiveKind::receive;
}

void check_collective(const Collective& call, int rank, int size) {
  const auto refuse = [&](const auto&... what) {
    throw Error(ErrorCode::invalid_argument, str("rank ", rank, " of ", size, ", ", to_string(call), ": ", what...),
                call.where);
  };
  const Extents extents = extents_of(call, rank, size);
  const bool is_sum = call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce_scatter;
  if (call.count < 0 || call.count > std::numeric_limits<int64_t>::max() / 1024 / size)
    refuse("the count is out of range");
  if (call.count > 0 && extents.input > 0 && call.input == nullptr) refuse("the input is null");
  if (call.count > 0 && extents.output > 0 && call.output == nullptr) refuse("the output is null");
  if (call.peer < 0 || call.peer >= size) refuse("there is no rank ", call.peer);
  if (is_between_two(call) && call.peer == rank) refuse("a member neither sends to itself nor receives from itself");
  if (!(call.divisor > 0) || !std::isfinite(call.divisor)) refuse("the divisor is not a positive number");
  if (call.divisor != 1 && (!is_sum || is_integral(call.dtype)))
    refuse("only sums of floating-point dtypes are divided; cast, or take the sum");
  if (call.kind == CollectiveKind::all_to_all && call.count > 0 && extents.input > 0 &&
      overlap(call.input, call.output,
              static_cast<size_t>(call.count) * size_of(call.dtype) * static_cast<size_t>(size)))
    refuse("the output overlaps the input; give it a buffer of its own");
}

}  // namespace tutti
