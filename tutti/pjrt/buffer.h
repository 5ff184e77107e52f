#pragma once

#include <memory>
#include <vector>

#include "tutti/pjrt/client.h"
#include "tutti/pjrt/event.h"

namespace tutti::pjrt {

// An array in a device's memory. Movable, and given back when it ends; programs in flight still find it.
class Buffer {
 public:
  // Takes the handle over.
  Buffer(std::shared_ptr<Client> client, abi::Buffer* handle) : client_(std::move(client)), handle_(handle) {}
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  ElementType type() const;
  std::vector<int64_t> dims() const;
  int64_t bytes() const { return bytes_of(type(), dims()); }  // on the host
  // Whether a program that it was donated to has taken its memory.
  bool is_deleted() const;

  // Starts to copy it to `to`, which `owner` keeps, dense and the last dimension fastest. Throws: invalid_argument for
  // another number of bytes, failed_precondition where it was donated.
  Event read(void* to, int64_t bytes, std::shared_ptr<const void> owner) const;

 private:
  friend class LoadedExecutable;

  std::shared_ptr<Client> client_;
  abi::Buffer* handle_;
};

}  // namespace tutti::pjrt
