#include "tests/support/simulated_kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/COW.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_generator.h"
#include "tests/support/simulated_graph.h"
#include "tests/support/simulated_memory.h"
#include "tests/support/simulated_pinned.h"
#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_arguments.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;
using at::Tensor;

bool is_simulated(const Tensor& tensor) { return tensor.defined() && tensor.is_privateuseone(); }

// A tensor of this geometry, and of the properties that kernels look at.
Tensor with_geometry(const Tensor& made, const Tensor& like) {
  auto* const impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.is_conj()) impl->_set_conj(true);
  if (like.is_neg()) impl->_set_neg(true);
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return made;
}

Tensor make(c10::Storage storage, c10::DispatchKey key, const Tensor& like) {
  c10::DispatchKeySet keys(key);
  if (like._is_zerotensor()) keys = keys.add(c10::DispatchKey::ZeroTensor);
  return with_geometry(at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, like.dtype()), like);
}

// As LibTorch's views, no inference tensor in inference mode unless `viewed` is one.
Tensor make_view(const Tensor& viewed, const Tensor& like) {
  constexpr c10::DispatchKeySet kLazy({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
  return with_geometry(at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(viewed.storage()),
                                                                viewed.key_set() - kLazy, like.dtype()),
                       like);
}

const at::SparseTensorImpl& sparse_impl(const Tensor& tensor) {
  return *static_cast<const at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

Tensor make_sparse(c10::DispatchKey key, const Tensor& like, const Tensor& indices, const Tensor& values) {
  Tensor made = at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), like.dtype());
  auto* const impl = static_cast<at::SparseTensorImpl*>(made.unsafeGetTensorImpl());
  impl->raw_resize_(sparse_impl(like).sparse_dim(), sparse_impl(like).dense_dim(), like.sizes());
  impl->set_indices_and_values_unsafe(indices, values);
  impl->set_coalesced(sparse_impl(like).coalesced());
  return made;
}

// One call of a kernel of the CPU's on tensors of devices: what stands on the host for what on the device.
class HostCall {
 public:
  explicit HostCall(int device) : device_(device) {}

  Tensor to_host(const Tensor& tensor, bool is_written) {
    if (!is_simulated(tensor)) return tensor;
    TORCH_CHECK(tensor.is_sparse() || tensor.storage().device() == tensor.device(), "a tensor on ", tensor.device(),
                " has its memory on ", tensor.storage().device());
    for (const Pair<Tensor>& known : tensors_)
      if (known.device.is_same(tensor)) return known.host;
    Tensor host;
    if (tensor.is_sparse())
      host = make_sparse(c10::DispatchKey::SparseCPU, tensor, to_host(sparse_impl(tensor).indices(), is_written),
                         to_host(sparse_impl(tensor).values(), is_written));
    else
      host = make(to_host(tensor.storage(), is_written), c10::DispatchKey::CPU, tensor);
    tensors_.push_back({tensor, host});
    return host;
  }

  c10::Storage to_host(const c10::Storage& storage, bool is_written) {
    if (storage.device_type() != c10::kPrivateUse1) return storage;
    for (const Memory& known : memories_)
      if (known.device.is_alias_of(storage)) return known.host;
    if (is_written) storage.mutable_data();  // ends a share
    void* const begin = seen_by_kernels(storage.data());
    c10::Storage host(c10::Storage::use_byte_size_t(), storage.nbytes(),
                      c10::DataPtr(
                          begin, begin, [](void*) {}, c10::kCPU),
                      c10::GetCPUAllocator(), /*resizable=*/true);
    Memory memory{{storage, host}, begin, {}};
    if (begin && c10::impl::cow::is_cow_data_ptr(storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks())) {
      memory.sharer = host;  // so that a kernel that writes without saying so gets memory of its own
      memory.host = c10::Storage(c10::impl::cow::lazy_clone_storage(*host.unsafeGetStorageImpl()));
    }
    memories_.push_back(memory);
    return memory.host;
  }

  Tensor to_device(const Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cpu()) return tensor;
    for (const Pair<Tensor>& known : tensors_)
      if (known.host.is_same(tensor)) return known.device;
    const c10::DeviceGuard guard(simulated_device(device_));
    if (tensor.is_sparse())
      return make_sparse(c10::DispatchKey::SparsePrivateUse1, tensor, to_device(sparse_impl(tensor).indices()),
                         to_device(sparse_impl(tensor).values()));
    for (const Pair<Tensor>& known : tensors_)
      if (!known.host.is_sparse() && known.host.storage().is_alias_of(tensor.storage()))
        return make_view(known.device, tensor);
    return make(to_device(tensor.storage()), c10::DispatchKey::PrivateUse1, tensor);
  }

  // In a capture: all that the call knows of the device's memory will be as it is.
  void restore_after_capture() const {
    for (const Memory& memory : memories_) {
      auto* const begin = static_cast<std::byte*>(const_cast<void*>(memory.begin));
      if (begin) tutti::restore_after_capture(device_, begin, {begin, begin + memory.device.nbytes()});
    }
  }
  bool knows(const c10::Storage& host) const {
    return std::ranges::any_of(memories_, [&](const Memory& memory) { return memory.begin == host.data(); });
  }

  // After the kernel: memory that it made, sizes that it changed.
  void follow() {
    for (size_t i = 0; i < memories_.size(); ++i) follow(memories_[i]);
    for (size_t i = 0; i < tensors_.size(); ++i) follow(Pair<Tensor>(tensors_[i]));
  }

 private:
  template <class T>
  struct Pair {
    T device, host;
  };
  struct Memory : Pair<c10::Storage> {
    const void* begin;
    c10::Storage sharer;
  };

  c10::Storage to_device(const c10::Storage& host) {
    for (const Memory& known : memories_)
      if (known.host.is_alias_of(host)) return known.device;
    c10::Storage device(c10::Storage::use_byte_size_t(), host.nbytes(), copied(host), &simulated_memory(),
                        /*resizable=*/true);
    memories_.push_back({{device, host}, host.data(), {}});
    return device;
  }

  c10::DataPtr copied(const c10::Storage& host) const {
    const c10::DeviceGuard guard(simulated_device(device_));
    const size_t num_bytes = host.data() ? host.nbytes() : 0;  // a ZeroTensor has none
    c10::DataPtr memory = simulated_memory().allocate(num_bytes);
    if (num_bytes > 0) std::memcpy(seen_by_kernels(memory.get()), host.data(), num_bytes);
    return memory;
  }

  void follow(Memory& memory) {
    if (memory.host.data() == memory.begin && memory.host.nbytes() == memory.device.nbytes()) return;
    memory.device.set_data_ptr_noswap(copied(memory.host));
    memory.device.set_nbytes(memory.host.nbytes());
    memory.begin = memory.host.data();
  }

  void follow(const Pair<Tensor>& pair) {
    auto* const device = pair.device.unsafeGetTensorImpl();
    if (pair.host.is_sparse()) {
      auto* const sparse = static_cast<at::SparseTensorImpl*>(device);
      const auto& of_host = sparse_impl(pair.host);
      if (of_host.sizes() != sparse->sizes() || of_host.sparse_dim() != sparse->sparse_dim())
        sparse->raw_resize_(of_host.sparse_dim(), of_host.dense_dim(), of_host.sizes());
      sparse->set_indices_and_values_unsafe(to_device(of_host.indices()), to_device(of_host.values()));
      return sparse->set_coalesced(of_host.coalesced());
    }
    c10::Storage storage = to_device(pair.host.storage());
    if (!storage.is_alias_of(pair.device.storage())) device->set_storage_keep_dtype(std::move(storage));
    const bool same = pair.host.sizes() == pair.device.sizes() && pair.host.strides() == pair.device.strides() &&
                      pair.host.storage_offset() == pair.device.storage_offset();
    if (!same) device->set_sizes_and_strides(pair.host.sizes(), pair.host.strides(), pair.host.storage_offset());
  }

  int device_;
  std::vector<Pair<Tensor>> tensors_;
  std::vector<Memory> memories_;
};

// Below autograd, autocast and the library's own keys, which the device's op has behind it.
class Plain {
  c10::impl::ForceDispatchKeyGuard keys_{
      c10::DispatchKeySet(c10::DispatchKey::BackendSelect),
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset};
};

// CUDA's kernels too look into these on the host.
bool may_mix_devices(std::string_view name) {
  constexpr std::string_view kNames[] = {"aten::index",         "aten::index_put",
                                         "aten::index_put_",    "aten::_index_put_impl_",
                                         "aten::_unsafe_index", "aten::_unsafe_index_put"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool is_written(const c10::Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

bool is_of(const c10::Argument& argument, const char* type) {
  return argument.type()->str().find(type) != std::string::npos;
}

// The device of the operands, or the one where the call wants its result. Throws, as CUDA does, where they differ.
int device_of(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> values) {
  std::optional<c10::Device> device, other;
  const auto look = [&](const Tensor& tensor, bool written) {
    if (!tensor.defined()) return tensor;
    if (tensor.is_privateuseone() && (!device || *device == tensor.device()))
      device = tensor.device();
    else if (tensor.is_privateuseone() || written || (tensor.dim() > 0 && !may_mix_devices(op.schema().name())))
      other = tensor.device();
    return tensor;
  };
  for (size_t i = 0; i < values.size(); ++i) {
    at::IValue value = values[i];
    replace_tensors(value, [&](const Tensor& tensor) { return look(tensor, is_written(op.schema().arguments()[i])); });
  }
  if (device && other)
    TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", *device,
                " and ", *other, "! (in ", op.schema().name(), ")");
  for (const at::IValue& value : values)
    if (!device && value.isDevice() && value.toDevice().has_index()) device = value.toDevice();
  return device ? device->index() : current_simulated_device();
}

at::IValue to_host(HostCall& call, const c10::Argument& argument, at::IValue value, int device) {
  if (value.isStorage()) return call.to_host(value.toStorage(), false);
  if (value.isDevice()) return c10::Device(c10::kCPU);
  if (value.isGenerator()) return host_generator_of(value.toGenerator());
  if (value.isNone() && is_of(argument, "Generator")) return host_generator_of(default_simulated_generator(device));
  replace_tensors(value, [&](const Tensor& tensor) { return call.to_host(tensor, is_written(argument)); });
  return value;
}

// The host waits where it has to know what a kernel of CUDA's has found, as how many elements of a mask are true.
void require_may_be_captured(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> values, int device) {
  if (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) require_no_capture(device);
  if (!may_mix_devices(op.schema().name())) return;
  for (at::IValue value : values)
    replace_tensors(value, [&](const Tensor& tensor) {
      if (tensor.defined() && tensor.scalar_type() == at::kBool) require_no_capture(device);
      return tensor;
    });
}

// Runs a kernel of the CPU's on the stack's tensors.
using OnHost = void (*)(const c10::OperatorHandle& op, Stack& stack);

template <class F>
void for_each_tensor(at::ArrayRef<at::IValue> values, const F& f) {
  for (at::IValue value : values) replace_tensors(value, [&](const Tensor& tensor) { return f(tensor), tensor; });
}

// What a launch of a captured call does: the kernel again, on the memory that its arguments have now, and results into
// the memory that its results have.
class CapturedCall {
 public:
  CapturedCall(const HostCall& call, at::ArrayRef<at::IValue> arguments)
      : arguments_(arguments.begin(), arguments.end()) {
    call.restore_after_capture();
  }

  // What the kernel gave on the host, before the call knows it as the device's.
  void see(const HostCall& call, at::ArrayRef<at::IValue> given) {
    for_each_tensor(given, [&](const Tensor& tensor) {
      is_new_.push_back(tensor.defined() && tensor.is_cpu() && !call.knows(tensor.storage()));
    });
  }
  // `results`: the same on the device.
  void note(int device, const c10::OperatorHandle& op, OnHost on_host, at::ArrayRef<at::IValue> results) {
    std::vector<Tensor> into;  // undefined: memory of an argument
    for_each_tensor(results, [&](const Tensor& tensor) {
      into.push_back(is_new_.at(into.size()) ? HostCall(device).to_host(tensor, true) : Tensor());
    });
    note_in_graph(device, [op, on_host, arguments = arguments_, into] {
      const Plain plain;
      Stack stack = arguments;
      on_host(op, stack);
      size_t next = 0;
      for_each_tensor(stack, [&](const Tensor& tensor) {
        if (const Tensor& result = into.at(next++); result.defined()) Tensor(result).copy_(tensor);
      });
    });
  }

 private:
  const Stack arguments_;
  std::vector<bool> is_new_;
};

void run_kernel(const c10::OperatorHandle& op, Stack& stack, OnHost on_host) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  const auto values = torch::jit::last(stack, arguments.size());
  const int device = device_of(op, values);
  require_may_be_captured(op, values, device);
  wait_for_current_stream(device);
  HostCall call(device);
  const Plain plain;
  for (size_t i = 0; i < arguments.size(); ++i)
    stack[first + i] = to_host(call, arguments[i], std::move(stack[first + i]), device);
  std::optional<CapturedCall> captured;
  if (is_captured(device)) captured.emplace(call, torch::jit::last(stack, arguments.size()));
  on_host(op, stack);
  const size_t num_results = stack.size() - first;
  if (captured) captured->see(call, torch::jit::last(stack, num_results));
  call.follow();
  for (size_t i = first; i < stack.size(); ++i)
    replace_tensors(stack[i], [&](const Tensor& tensor) { return call.to_device(tensor); });
  if (captured) captured->note(device, op, on_host, torch::jit::last(stack, num_results));
}

template <c10::DispatchKey host_key>
void kernel(const c10::OperatorHandle& op, Stack* stack) {
  run_kernel(op, *stack, [](const c10::OperatorHandle& of, Stack& on_host) {
    of.redispatchBoxed(c10::DispatchKeySet(host_key), &on_host);
  });
}

Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(sizes, &simulated_memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, &simulated_memory(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

std::atomic<int> num_copies_between_devices = 0;

// On the device's current stream, from where the memory is now.
void copy_later(const Tensor& pinned, const Tensor& to) {
  const int device = to.device().index();
  void* const first = pinned.storage().data_ptr().get();
  const c10::Storage memory(c10::Storage::use_byte_size_t(), pinned.storage().nbytes(), {first, c10::kCPU});
  give_stream(current_simulated_stream(device),
              [from = make(memory, c10::DispatchKey::CPU, pinned), into = HostCall(device).to_host(to, true),
               kept = kept_for_copy(pinned.const_data_ptr(), pinned.storage().data_ptr().get_context())] {
                const Plain plain;
                Tensor(into).copy_(from);
              });
}

void copy_when_launched(int device, const Tensor& self, const Tensor& to) {
  if (!is_simulated(self) || self.device() != to.device()) require_no_capture(device);
  HostCall call(device);
  const auto copy = [from = call.to_host(self, false), into = call.to_host(to, true)] {
    const Plain plain;
    Tensor(into).copy_(from);
  };
  call.restore_after_capture();
  note_in_graph(device, copy);
  copy();
}

// Between any two places.
Tensor copy_from(const Tensor& self, const Tensor& to, bool non_blocking) {
  const int device = (is_simulated(to) ? to : self).device().index();
  if (is_captured(device)) return copy_when_launched(device, self, to), to;
  if (non_blocking && self.is_cpu() && self.is_pinned()) return copy_later(self, to), to;
  for (const Tensor& tensor : {self, to})
    if (is_simulated(tensor)) wait_for_current_stream(tensor.device().index());
  if (is_simulated(self) && is_simulated(to) && self.device() != to.device()) ++num_copies_between_devices;
  HostCall call(device);
  const Plain plain;
  Tensor into = call.to_host(to, true);
  into.copy_(call.to_host(self, false));
  return to;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

void record_stream(Tensor& tensor, c10::Stream stream) { used_by(tensor.const_data_ptr(), stream); }

c10::OperatorHandle aten(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

// What at::convolution calls on kinds of devices that it does not know.
void convolution(const c10::OperatorHandle& overrideable, Stack* stack) {
  run_kernel(overrideable, *stack, [](const c10::OperatorHandle&, Stack& on_host) {
    static const c10::OperatorHandle op = aten("aten::convolution");
    op.callBoxed(on_host);
  });
}

void convolution_backward(const c10::OperatorHandle& overrideable, Stack* stack) {
  run_kernel(overrideable, *stack, [](const c10::OperatorHandle&, Stack& on_host) {
    static const c10::OperatorHandle op = aten("aten::convolution_backward");
    constexpr std::ptrdiff_t kArguments = 10;
    const int64_t num_channels = on_host[on_host.size() - kArguments].toTensor().size(1);            // of the gradient
    on_host.insert(on_host.end() - kArguments + 3, at::IValue(std::vector<int64_t>{num_channels}));  // the bias's sizes
    op.callBoxed(on_host);
  });
}

// CUDA's kernels of lists count themselves what they write, which LibTorch's count refuses of an inference tensor.
void write_to_list(const c10::OperatorHandle& op, Stack* stack) {
  for (const Tensor& written : torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensorVector())
    written.unsafeGetTensorImpl()->bump_version();
  kernel<c10::DispatchKey::CPU>(op, stack);
}

void register_writes_to_lists(torch::Library& aten) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
    if (name.name.starts_with("aten::_foreach_") && name.name.ends_with('_'))
      aten.impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&write_to_list>());
}

// Of ops that have another kernel for devices that they do not know, sparse or not.
void register_sparse() {
  torch::Library& aten = immortal_library("aten", c10::DispatchKey::SparsePrivateUse1);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !name.name.starts_with("aten::")) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::SparseCPU)) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)) continue;
    aten.impl(full_name(name).c_str(),
              torch::CppFunction::makeFromBoxedFunction<&kernel<c10::DispatchKey::SparseCPU>>());
  }
}

}  // namespace

int num_copies_between_simulated_devices() { return num_copies_between_devices; }

void register_simulated_kernels() {
  immortal_library("_", c10::DispatchKey::PrivateUse1)
      .fallback(torch::CppFunction::makeFromBoxedFunction<&kernel<c10::DispatchKey::CPU>>());
  immortal_library("_", c10::DispatchKey::SparsePrivateUse1)
      .fallback(torch::CppFunction::makeFromBoxedFunction<&kernel<c10::DispatchKey::SparseCPU>>());
  register_sparse();
  torch::Library& aten = immortal_library("aten", c10::DispatchKey::PrivateUse1);
  aten.impl("empty.memory_format", TORCH_FN(empty));
  aten.impl("empty_strided", TORCH_FN(empty_strided));
  aten.impl("_copy_from", TORCH_FN(copy_from));
  aten.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  for (const auto lazy : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative})  // as copy_ sees to it itself
    immortal_library("aten", lazy).impl("_copy_from", torch::CppFunction::makeFallthrough());
  aten.impl("record_stream", TORCH_FN(record_stream));
  register_writes_to_lists(aten);
  aten.impl("repeat",
            torch::CppFunction::makeFromBoxedFunction<&kernel<c10::DispatchKey::CPU>>());  // LibTorch's crashes
  aten.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  aten.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

}  // namespace tutti
