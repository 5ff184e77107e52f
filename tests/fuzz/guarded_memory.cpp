#include "guarded_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace tutti::fuzz {
namespace {

constexpr size_t kAlignment = 16;  // what kernels may count on

size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

// Lies in front of a tensor's memory.
struct alignas(kAlignment) Pages {
  void* begin;
  size_t size;  // with the page behind them
};

class GuardedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (size == 0) return {nullptr, nullptr, &give_back, cpu};
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t rounded = round_up(size, kAlignment), used = round_up(rounded + sizeof(Pages), page);
    void* const memory = mmap(nullptr, used + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    char* const end = static_cast<char*>(memory) + used;
    mprotect(end, page, PROT_NONE);
    char* const data = end - rounded;
    std::memset(data, kFresh, rounded);
    new (data - sizeof(Pages)) Pages{memory, used + page};
    return {data, data, &give_back, cpu};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  void copy_data(void* to, const void* from, size_t size) const override { std::memcpy(to, from, size); }

 private:
  static constexpr int kFresh = 0xbd;  // a number of each type, and a large one of most

  static void give_back(void* data) {
    if (!data) return;
    const Pages pages = *reinterpret_cast<Pages*>(static_cast<char*>(data) - sizeof(Pages));
    munmap(pages.begin, pages.size);
  }
};

}  // namespace

void guard_memory() {
  static GuardedAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/255);
}

}  // namespace tutti::fuzz
