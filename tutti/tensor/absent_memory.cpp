#include "tutti/tensor/absent_memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

constexpr size_t kHeadBytes = 4096;  // before the memory, a page that says how large it is

// LibTorch's, so that storages over it can be shared copy-on-write.
class AbsentAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t count) override {
    const size_t size = kHeadBytes + count;
    void* const head = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (head == MAP_FAILED)
      throw Error(ErrorCode::resource_exhausted,
                  str("a variable of ", count, " bytes whose values are elsewhere: no addresses for it (",
                      std::strerror(errno), "); `ulimit -v` limits them"));
    madvise(head, size, MADV_NOHUGEPAGE);  // a row that is written takes a small page
    std::memcpy(head, &size, sizeof size);
    void* const memory = static_cast<char*>(head) + kHeadBytes;
    return {memory, memory, &unmap, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, size_t count) const override { default_copy_data(to, from, count); }

 private:
  static void unmap(void* memory) {
    void* const head = static_cast<char*>(memory) - kHeadBytes;
    size_t size;
    std::memcpy(&size, head, sizeof size);
    munmap(head, size);
  }
};

AbsentAllocator& absent_allocator() {
  static auto* const allocator = new AbsentAllocator();  // tensors may outlive all else
  return *allocator;
}

}  // namespace

at::Tensor absent_tensor(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::Tensor(at::detail::empty_generic(sizes, &absent_allocator(), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                              dtype, /*memory_format_opt=*/{}));
}

bool is_absent(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.storage().allocator() == &absent_allocator();
}

void make_absent(const at::Tensor& tensor) {
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(absent_allocator().allocate(storage.nbytes()));
  storage.set_allocator(&absent_allocator());
}

}  // namespace tutti
