#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/Storage.h>

#include <vector>

namespace tutti {

bool is_simulated(const at::Tensor& tensor);

// A tensor of the geometry of `like`, and of the properties that kernels look at.
at::Tensor make_like(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like);

// One call of a kernel of the CPU's on tensors of simulated devices: what stands on the host for what on the device.
class HostCall {
 public:
  explicit HostCall(int device) : device_(device) {}

  at::Tensor to_host(const at::Tensor& tensor, bool is_written);
  c10::Storage to_host(const c10::Storage& storage, bool is_written);
  at::Tensor to_device(const at::Tensor& tensor);

  // In a capture: all that the call knows of the device's memory will be as it is.
  void restore_after_capture() const;
  bool knows(const c10::Storage& host) const;

  // After the kernel: memory that it made, sizes that it changed.
  void follow();

 private:
  template <class T>
  struct Pair {
    T device, host;
  };
  struct Memory : Pair<c10::Storage> {
    const void* begin;
    c10::Storage sharer;
  };

  c10::Storage to_device(const c10::Storage& host);
  c10::DataPtr copied(const c10::Storage& host) const;
  void follow(Memory& memory);
  void follow(const Pair<at::Tensor>& pair);

  int device_;
  std::vector<Pair<at::Tensor>> tensors_;
  std::vector<Memory> memories_;
};

}  // namespace tutti
