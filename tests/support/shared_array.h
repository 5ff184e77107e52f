#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace tutti {

// An array of zeros that this process shares with those it forks.
template <class T>
class SharedArray {
 public:
  explicit SharedArray(size_t size) : size_(size) {
    void* mapped = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(mapped);
  }
  ~SharedArray() { munmap(data_, bytes()); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  T& operator[](size_t index) const { return data_[index]; }

 private:
  size_t bytes() const { return size_ * sizeof(T); }

  size_t size_;
  T* data_;
};

}  // namespace tutti
