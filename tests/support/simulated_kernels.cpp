#include "tests/support/simulated_kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_generator.h"
#include "tests/support/simulated_graph.h"
#include "tests/support/simulated_host_call.h"
#include "tests/support/simulated_memory.h"
#include "tests/support/simulated_pinned.h"
#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_arguments.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;
using at::Tensor;

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

// The kernel on the memory that the arguments have now, and what it gives into the memory of the results. Undefined
// ones have memory of an argument.
std::function<void()> call_of(const c10::OperatorHandle& op, OnHost on_host, Stack arguments,
                              std::vector<Tensor> results) {
  return [op, on_host, arguments = std::move(arguments), results = std::move(results)] {
    const Plain plain;
    Stack stack = arguments;
    on_host(op, stack);
    size_t next = 0;
    for_each_tensor(stack, [&](const Tensor& tensor) {
      if (const Tensor& result = results.at(next++); result.defined()) Tensor(result).copy_(tensor);
    });
  };
}

// What a launch of a captured call does.
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
    std::vector<Tensor> into;
    for_each_tensor(results, [&](const Tensor& tensor) {
      into.push_back(is_new_.at(into.size()) ? HostCall(device).to_host(tensor, true) : Tensor());
    });
    note_in_graph(device, call_of(op, on_host, arguments_, std::move(into)));
  }

 private:
  const Stack arguments_;
  std::vector<bool> is_new_;
};

// --- late ones ---

std::atomic<int> num_late_scopes = 0, num_late = 0;

bool is_view(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  });
}

Tensor empty_strided_on(int device, const Tensor& like) {
  const c10::DeviceGuard guard(simulated_device(device));
  return at::detail::empty_strided_generic(like.sizes(), like.strides(), &simulated_memory(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), like.scalar_type());
}

// Whether LibTorch can tell what the call gives without a look at the values.
bool is_foreseen(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> values) {
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::Meta) || is_view(op.schema())) return false;
  if (op.hasTag(at::Tag::inplace_view) || op.schema().name().find("sparse") != std::string::npos) return false;
  for (const c10::Argument& argument : op.schema().arguments())
    if (is_of(argument, "Generator") || is_of(argument, "Storage")) return false;
  bool all_are_plain = true;
  for_each_tensor(values, [&](const Tensor& tensor) {
    if (tensor.defined() && (tensor.is_sparse() || tensor._is_zerotensor())) all_are_plain = false;
  });
  return all_are_plain;
}

// What the call gives: arguments that it writes, and new tensors, which hold nothing yet; none where it must be made to
// know them.
std::optional<Stack> results_before(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> values, int device) {
  std::vector<std::pair<Tensor, Tensor>> known;  // an argument, and one of its geometry
  Stack stack;
  for (at::IValue value : values) {
    if (value.isDevice()) value = c10::Device(c10::kMeta);
    replace_tensors(value, [&](const Tensor& tensor) {
      if (!tensor.defined()) return tensor;
      const c10::Storage none(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::kMeta));
      return known.emplace_back(tensor, make_like(none, c10::DispatchKey::Meta, tensor)).second;
    });
    stack.push_back(std::move(value));
  }
  try {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  } catch (const c10::Error&) {
    return {};  // which the kernel says better
  }
  for (const auto& [argument, like] : known)
    if (argument.sizes() != like.sizes() || argument.strides() != like.strides()) return {};
  for (at::IValue& value : stack)
    replace_tensors(value, [&](const Tensor& tensor) {
      for (const auto& [argument, like] : known)
        if (like.is_same(tensor)) return argument;
      return tensor.defined() ? empty_strided_on(device, tensor) : tensor;
    });
  return stack;
}

// Before anything is read of what is written, in whose name ever.
void take_written(HostCall& call, const c10::OperatorHandle& op, at::ArrayRef<at::IValue> values, int device) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (is_written(arguments[i])) to_host(call, arguments[i], values[i], device);
}

// Gives the call to the current stream. Returns whether it could.
bool launch(const c10::OperatorHandle& op, Stack& stack, OnHost on_host, int device) {
  if (!kernels_are_late() || is_captured(device)) return false;
  const auto& arguments = op.schema().arguments();
  const auto values = torch::jit::last(stack, arguments.size());
  if (!is_foreseen(op, values)) return false;
  const Plain plain;
  std::optional<Stack> results = results_before(op, values, device);
  if (!results) return false;
  HostCall call(device);
  take_written(call, op, values, device);
  Stack on_stream;
  std::vector<Tensor> given, into;
  for (size_t i = 0; i < arguments.size(); ++i) {
    at::IValue value = values[i];
    for_each_tensor(at::ArrayRef(value), [&](const Tensor& tensor) { given.push_back(tensor); });
    replace_tensors(value, [](const Tensor& tensor) {
      return tensor.defined() && tensor.is_cpu() ? tensor.clone() : tensor;  // a number, as it is now
    });
    on_stream.push_back(to_host(call, arguments[i], std::move(value), device));
  }
  for_each_tensor(*results, [&](const Tensor& result) {
    const bool is_argument = std::ranges::any_of(given, [&](const Tensor& each) { return each.is_same(result); });
    into.push_back(is_argument || !result.defined() ? Tensor() : call.to_host(result, true));
  });
  ++num_late;
  give_stream(current_simulated_stream(device), call_of(op, on_host, std::move(on_stream), std::move(into)));
  torch::jit::drop(stack, arguments.size());
  for (at::IValue& result : *results) stack.push_back(std::move(result));
  return true;
}

// A copy between devices, or within one.
bool launch_copy(const Tensor& self, const Tensor& to) {
  if (!kernels_are_late() || !is_simulated(self) || !is_simulated(to)) return false;
  const c10::Stream from_stream = current_simulated_stream(self.device().index()),
                    to_stream = current_simulated_stream(to.device().index());
  HostCall call(to.device().index());
  const auto copy = [from = call.to_host(self, false), into = call.to_host(to, true)] {
    const Plain plain;
    Tensor(into).copy_(from);
  };
  ++num_late;
  if (from_stream == to_stream) return give_stream(from_stream, copy), true;
  const auto both_came = std::make_shared<std::latch>(2);
  const auto is_copied = std::make_shared<std::latch>(1);
  give_stream(from_stream, [=] {
    both_came->arrive_and_wait();
    copy();
    is_copied->count_down();
  });
  give_stream(to_stream, [=] {
    both_came->arrive_and_wait();
    is_copied->wait();
  });
  return true;
}

void run_kernel(const c10::OperatorHandle& op, Stack& stack, OnHost on_host) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  const auto values = torch::jit::last(stack, arguments.size());
  const int device = device_of(op, values);
  require_may_be_captured(op, values, device);
  if (launch(op, stack, on_host, device)) return;
  if (!kernels_are_late() || !is_view(op.schema())) wait_for_current_stream(device);
  HostCall call(device);
  const Plain plain;
  take_written(call, op, values, device);
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
              [from = make_like(memory, c10::DispatchKey::CPU, pinned), into = HostCall(device).to_host(to, true),
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
  if (is_simulated(self) && is_simulated(to) && self.device() != to.device()) ++num_copies_between_devices;
  if (launch_copy(self, to)) return to;
  for (const Tensor& tensor : {self, to})
    if (is_simulated(tensor)) wait_for_current_stream(tensor.device().index());
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

KernelsAreLate::KernelsAreLate() { ++num_late_scopes; }
KernelsAreLate::~KernelsAreLate() { --num_late_scopes; }
bool kernels_are_late() { return num_late_scopes > 0; }
int num_late_kernels() { return num_late; }

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
