// Counts the allocations of this binary: a step in the steady state makes none.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include "tutti/collectives/communications.h"
#include "tutti/collectives/local/host_reduction.h"
#include "tutti/collectives/rendezvous.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"
#include "tutti/device/workers.h"

namespace {
std::atomic<int64_t> num_allocations = 0;
}

// Not inlined: GCC would see free() meet operator new, and warn. Without exceptions too: a sanitizer has one of its
// own, whose memory is not for free().
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tutti {
namespace {

TEST(Allocations, AreCounted) {
  const int64_t before = num_allocations;
  std::vector<int> numbers(100, 1);
  EXPECT_EQ(num_allocations - before, 1) << numbers.size();
}

TEST(Allocations, AStepOfManyReplicasMakesNone) {
  constexpr int kReplicas = 4;
  Workers workers(kReplicas);
  Rendezvous rendezvous(kReplicas);
  CommunicationCounter& counter = communication_counter({.op = "all_reduce"});
  std::vector<std::vector<float>> gradients(kReplicas, std::vector<float>(50'000, 1));
  const auto step = [&] {
    rendezvous.reset();
    workers.run([&](int replica) {
      void* mine = gradients[static_cast<size_t>(replica)].data();
      rendezvous.arrive(replica, {.name = "all_reduce", .payload = mine}, [&](std::span<void* const> payloads) {
        const ReductionItem item{.inputs = payloads, .outputs = payloads, .count = 50'000, .divisor = kReplicas};
        HostReduction({&item, 1}).run();
        counter.record(200'000);
      });
      rendezvous.finish(replica);
    });
  };
  step();
  const int64_t before = num_allocations;
  for (int i = 0; i < 50; ++i) step();
  EXPECT_EQ(num_allocations - before, 0);
  EXPECT_EQ(gradients[3][49'999], 1);
}

// A member of a group that sums memory of its own, in more than one round, and a buffer of the group's.
struct SummingMember {
  SummingMember(const FileDescriptor& memory, int rank, float value)
      : group(shared_memory_group(memory.number(), rank)),
        shared(group->allocate_shared(kCount * sizeof(float))),
        own(kCount, value) {
    std::ranges::copy(own, in_buffer());
  }
  float* in_buffer() const { return reinterpret_cast<float*>(shared.get()); }
  void sum() {
    for (const bool is_shared : {false, true}) {
      float* const values = is_shared ? in_buffer() : own.data();
      group->run({.kind = CollectiveKind::all_reduce,
                  .count = kCount,
                  .input = values,
                  .output = values,
                  .place = is_shared ? BufferPlace::shared : BufferPlace::host,
                  .divisor = 2,
                  .name = "gradients"});
    }
  }

  static constexpr int64_t kCount = 300'000;
  std::unique_ptr<Group> group;
  std::shared_ptr<std::byte> shared;
  std::vector<float> own;
};

TEST(Allocations, ASumInSharedMemoryMakesNone) {
  constexpr int kWarm = 5, kCounted = 50;
  const FileDescriptor memory = create_group_memory(2);
  std::thread second([&] {
    SummingMember other(memory, 1, 3);
    for (int i = 0; i < kWarm + kCounted; ++i) other.sum();
    other.group->run({});  // lives until it was counted
  });
  SummingMember one(memory, 0, 1);
  for (int i = 0; i < kWarm; ++i) one.sum();
  const int64_t before = num_allocations;
  for (int i = 0; i < kCounted; ++i) one.sum();
  EXPECT_EQ(num_allocations - before, 0);
  one.group->run({});
  second.join();
  EXPECT_EQ(one.own[299'999], 2);
  EXPECT_EQ(one.in_buffer()[299'999], 2);
}

}  // namespace
}  // namespace tutti
