#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <typeinfo>

#include "tutti/core/file_descriptor.h"

namespace tutti {

// An array of zeros that this process shares with those it forks; where TUTTI_SHARED_ARRAYS names an empty folder, with
// all that make the same arrays in the same order.
template <class T>
class SharedArray {
 public:
  explicit SharedArray(size_t size) : size_(size) {
    const char* folder = std::getenv("TUTTI_SHARED_ARRAYS");
    const FileDescriptor file = folder ? next_file(folder) : FileDescriptor();
    if (folder && ftruncate(file.number(), static_cast<off_t>(bytes())) != 0) throw std::bad_alloc();
    const int flags = MAP_SHARED | (folder ? 0 : MAP_ANONYMOUS);
    void* mapped = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, flags, file.number(), 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(mapped);
  }
  ~SharedArray() { munmap(data_, bytes()); }
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;

  T& operator[](size_t index) const { return data_[index]; }

 private:
  size_t bytes() const { return size_ * sizeof(T); }

  static FileDescriptor next_file(const std::string& folder) {
    static int number = 0;
    const std::string path = folder + '/' + typeid(T).name() + std::to_string(number++);
    return FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }

  size_t size_;
  T* data_;
};

}  // namespace tutti
