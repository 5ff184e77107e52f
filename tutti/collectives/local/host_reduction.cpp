#include "tutti/collectives/local/host_reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tutti/collectives/local/reduce_kernel.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

constexpr size_t kTileBytes = 64 * 1024;  // of one buffer
constexpr size_t kAlignment = 64;         // tiles begin at multiples of it, which every element's size divides

size_t num_bytes(const ReductionItem& item) { return static_cast<size_t>(item.count) * size_of(item.dtype); }

// What an item takes up in the sequence of all items, of which tiles are cut.
size_t extent(const ReductionItem& item) { return (num_bytes(item) + kAlignment - 1) / kAlignment * kAlignment; }

void check(const ReductionItem& item) {
  const auto refuse = [&](const auto&... what) {
    throw Error(ErrorCode::invalid_argument,
                str("reduction of ", item.count, " elements of ", to_string(item.dtype), " from ", item.inputs.size(),
                    " buffers into ", item.outputs.size(), ": ", what...));
  };
  if (item.inputs.empty() || item.outputs.empty()) refuse("there must be at least one input and one output");
  if (item.count < 0 || item.count > std::numeric_limits<int64_t>::max() / 1024) refuse("the count is out of range");
  if (!(item.divisor > 0) || !std::isfinite(item.divisor)) refuse("divisor ", item.divisor, " is not positive");
  if (item.divisor != 1 && is_integral(item.dtype))
    refuse("a mean of integers is not an integer; cast to a floating-point dtype, or take the sum");
  const bool has_null = std::ranges::count(item.inputs, nullptr) + std::ranges::count(item.outputs, nullptr) > 0;
  if (item.count > 0 && has_null) refuse("a buffer is null");
}

}  // namespace

HostReduction::HostReduction(std::span<const ReductionItem> items) : items_(items) {
  for (const ReductionItem& item : items) {
    check(item);
    num_bytes_ += extent(item);
  }
}

int64_t HostReduction::num_tiles() const { return static_cast<int64_t>((num_bytes_ + kTileBytes - 1) / kTileBytes); }

void HostReduction::run() {
  auto item = items_.begin();
  size_t item_begin = 0;  // in the sequence of all items
  while (true) {
    const size_t tile_begin = claimed_.fetch_add(kTileBytes, std::memory_order_relaxed);
    if (tile_begin >= num_bytes_) return;
    const size_t tile_end = std::min(tile_begin + kTileBytes, num_bytes_);
    for (; item != items_.end() && item_begin < tile_end; item_begin += extent(*item++)) {
      const size_t begin = std::max(tile_begin, item_begin) - item_begin;
      const size_t end = std::min(tile_end - item_begin, num_bytes(*item));
      if (begin < end) reduce_kernel(item->dtype)(*item, begin, end);
      if (item_begin + extent(*item) > tile_end) break;  // the next tile goes on here
    }
  }
}

}  // namespace tutti
