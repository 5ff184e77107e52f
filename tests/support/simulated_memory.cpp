#include "tests/support/simulated_memory.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_graph.h"
#include "tests/support/simulated_kernels.h"

namespace tutti {
namespace {

constexpr size_t kAlignment = 512;  // as CUDA's
constexpr size_t kRegion = kSimulatedDeviceBytes * kSimulatedDevices;
constexpr size_t kMostPoisoned = size_t{1} << 20;  // bytes at a block's beginning

// The region of the device pointers, and behind it, at the same distance for all, that of the kernels. The system gives
// pages to those that are written.
std::byte* region() {
  static std::byte* const begin = [] {
    void* const both = mmap(nullptr, 2 * kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TORCH_CHECK(both != MAP_FAILED, "no room for the memory of simulated devices");
    auto* const first = static_cast<std::byte*>(both);
    TORCH_CHECK(mprotect(first + kRegion, kRegion, PROT_READ | PROT_WRITE) == 0, "no memory for simulated devices");
    return first;
  }();
  return begin;
}

void poison(std::byte* pointer, size_t size) {
  std::memset(seen_by_kernels(pointer), 0xff, std::min(size, kMostPoisoned));
}

// Blocks have sizes that are powers of two; a freed one serves the next request of its size, of the same graph or of
// none.
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    const int device = current_simulated_device();
    const c10::Device place = simulated_device(device);
    if (size == 0) return {nullptr, place};
    std::byte* const block = take(device, std::bit_ceil(std::max(size, kAlignment)));
    if (kernels_are_late() && !is_captured(device))
      give_stream(current_simulated_stream(device), [=] { poison(block, size); });
    else
      poison(block, size);
    return {block, block, &Memory::free, place};
  }

  void use(const void* pointer, c10::Stream stream) {
    const std::lock_guard lock(mutex_);
    if (const auto behind = used_.upper_bound(pointer); behind != used_.begin())
      std::prev(behind)->second.streams.push_back(stream);
  }

  void copy_data(void* to, const void* from, size_t size) const override {
    const int device = simulated_device_of(from);
    const auto copy = [=] { std::memcpy(seen_by_kernels(to), seen_by_kernels(from), size); };
    wait_for_current_stream(device);
    if (is_captured(device)) {
      std::byte* const begin = seen_by_kernels(to);
      restore_after_capture(device, begin, {begin, begin + size});
      note_in_graph(device, copy);
    }
    copy();
  }

  void poison_all_of(int graph) {
    const std::lock_guard lock(mutex_);
    for (const Heap& heap : heaps_)
      for (auto kind = heap.free.lower_bound({graph, 0, 0}); kind != heap.free.end() && kind->first.graph == graph;
           ++kind)
        for (std::byte* const block : kind->second) poison(block, kind->first.size);
    for (const auto& [begin, block] : used_)
      if (block.kind.graph == graph)
        poison(const_cast<std::byte*>(static_cast<const std::byte*>(begin)), block.kind.size);
  }

  void release(int graph) {
    const std::lock_guard lock(mutex_);
    for (Heap& heap : heaps_)
      for (auto kind = heap.free.lower_bound({graph, 0, 0}); kind != heap.free.end() && kind->first.graph == graph;) {
        std::vector<std::byte*>& everybodys = heap.free[{0, kind->first.stream, kind->first.size}];
        everybodys.insert(everybodys.end(), kind->second.begin(), kind->second.end());
        kind = heap.free.erase(kind);
      }
    for (auto& [begin, block] : used_)
      if (block.kind.graph == graph) block.kind.graph = 0;
  }

 private:
  struct Kind {
    int graph;             // whose it is; 0: of none
    c10::StreamId stream;  // for whose next requests; 0 unless kernels are late: for any stream's
    size_t size;

    auto operator<=>(const Kind&) const = default;
  };
  struct Heap {
    size_t used = 0;  // bytes at its beginning that were ever given away
    std::map<Kind, std::vector<std::byte*>> free;
  };

  std::byte* take(int device, size_t size) {
    const std::lock_guard lock(mutex_);
    Heap& heap = heaps_.at(static_cast<size_t>(device));
    const c10::Stream stream = current_simulated_stream(device);
    const Kind kind{capturing_graph(device), kernels_are_late() ? stream.id() : 0, size};
    std::vector<std::byte*>& free = heap.free[kind];
    std::byte* block = nullptr;
    if (!free.empty()) {
      block = free.back();
      free.pop_back();
    } else {
      TORCH_CHECK_WITH(OutOfMemoryError, heap.used + size <= kSimulatedDeviceBytes, "simulated device ", device,
                       " out of memory: ", size, " bytes wanted, ", kSimulatedDeviceBytes - heap.used, " are left");
      block = region() + static_cast<size_t>(device) * kSimulatedDeviceBytes + heap.used;
      heap.used += size;
    }
    used_[block] = {.kind = kind, .streams = {stream}};
    return block;
  }

  static void free(void* pointer);
  void give_back(std::byte* block, Kind kind) {
    const std::lock_guard lock(mutex_);
    if (!kernels_are_late()) poison(block, kind.size);
    heaps_.at(static_cast<size_t>(simulated_device_of(block))).free[kind].push_back(block);
  }

  struct Block {
    Kind kind;
    std::vector<c10::Stream> streams;  // that use it; first its own
  };

  std::mutex mutex_;
  std::array<Heap, kSimulatedDevices> heaps_;
  std::map<const void*, Block> used_;
};

Memory& memory() {
  static Memory& all = *new Memory;  // tensors may outlive any static object
  return all;
}

void Memory::free(void* pointer) {
  auto* const block = static_cast<std::byte*>(pointer);
  Memory& all = memory();
  std::unique_lock lock(all.mutex_);
  Block known = std::move(all.used_.extract(block).mapped());
  lock.unlock();
  if (kernels_are_late()) known.streams.erase(known.streams.begin());  // which will come to who gets it behind all this
  when_done(known.streams, [&all, block, kind = known.kind] { all.give_back(block, kind); });
}

}  // namespace

c10::Allocator& simulated_memory() { return memory(); }

std::byte* seen_by_kernels(const void* pointer) {
  return pointer ? const_cast<std::byte*>(static_cast<const std::byte*>(pointer)) + kRegion : nullptr;
}

void used_by(const void* pointer, c10::Stream stream) { memory().use(pointer, stream); }

void poison_memory_of(int graph) { memory().poison_all_of(graph); }

void release_memory_of(int graph) { memory().release(graph); }

int simulated_device_of(const void* pointer) {
  const auto* const byte = static_cast<const std::byte*>(pointer);
  if (byte < region() || byte >= region() + kRegion) return -1;
  return static_cast<int>(static_cast<size_t>(byte - region()) / kSimulatedDeviceBytes);
}

}  // namespace tutti
