#include "tests/support/test_devices.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "tests/support/nccl_devices.h"
#include "tests/support/simulated_accelerator.h"
#include "tests/support/simulated_kernels.h"
#include "tutti/device/gpu.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/library.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

enum class Kind { cpu, cpu_and_gpu, gpu, gpus };

constexpr c10::DispatchKey kFactoryKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;  // in front of all others

Kind kind() {
  static const Kind chosen = [] {
    const char* const text = std::getenv("TUTTI_TEST_DEVICE");
    const std::string name = text ? text : "cpu";
    if (name == "cpu") return Kind::cpu;
    if (name == "cpu_and_gpu") return Kind::cpu_and_gpu;
    if (name == "gpu") return Kind::gpu;
    if (name == "gpus") return Kind::gpus;
    throw std::invalid_argument("TUTTI_TEST_DEVICE is " + name + "; it must be cpu, cpu_and_gpu, gpu or gpus");
  }();
  return chosen;
}

// What LibTorch calls inside of an op, it means as it says: some kernels make small tensors on the CPU to read them.
void run_inside(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard inside(kFactoryKey);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kFactoryKey), stack);
}

// Names the current GPU to a factory function whose caller named no device. In a scope the library does.
class FactoryKernel final : public c10::OperatorKernel {
 public:
  FactoryKernel(size_t device, std::optional<size_t> generator) : device_(device), generator_(generator) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const size_t first = stack->size() - op.schema().arguments().size();
    const bool draws_on_host = generator_ && (*stack)[first + *generator_].isGenerator() &&
                               (*stack)[first + *generator_].toGenerator().device().is_cpu();
    at::IValue& device = (*stack)[first + device_];
    if (device.isNone() && !ThreadView::current().scope)
      device = draws_on_host ? c10::Device(c10::kCPU) : gpu_device(at::accelerator::getDeviceIndex());
    run_inside(op, keys, stack);
  }

 private:
  size_t device_;
  std::optional<size_t> generator_;
};

std::optional<size_t> argument_of(const c10::FunctionSchema& schema, const char* type) {
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (schema.arguments()[i].type()->str().find(type) != std::string::npos) return i;
  return {};
}

void register_factories() {
  immortal_library("_", kFactoryKey).fallback(torch::CppFunction::makeFromBoxedFunction<&run_inside>());
  torch::Library& aten = immortal_library("aten", kFactoryKey);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!name.name.starts_with("aten::") || !op) continue;
    const auto device = argument_of(op->schema(), "Device");
    if (name.name == "aten::empty") continue;  // at::tensor() fills it on the host
    if (!device || argument_of(op->schema(), "Tensor") || argument_of(op->schema(), "Storage")) continue;
    aten.impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<FactoryKernel>(
                                           *device, argument_of(op->schema(), "Generator"))));
  }
}

void register_simulated() {
  register_simulated_accelerator();
  if (std::getenv("TUTTI_TEST_LATE_KERNELS")) static_cast<void>(new KernelsAreLate);
  if (const char* const path = std::getenv("TUTTI_NCCL_LIBRARY"))
    show_simulated_devices_to(dlopen(path, RTLD_NOW | RTLD_LOCAL));
}

// Before main(): gtest asks for the parameters of tests before anything else, and they may make backward passes.
[[maybe_unused]] const bool kIsThere = [] {
  if (kind() == Kind::cpu) return true;
  if (num_gpus() == 0) register_simulated();
  if (kind() == Kind::cpu_and_gpu) return true;
  register_factories();
  c10::impl::tls_set_dispatch_key_included(kFactoryKey, true);
  return true;
}();

std::vector<Device> parts_of_gpu(int gpu, int n) {
  return configure_logical_devices(Device(DeviceType::gpu, gpu),
                                   std::vector<LogicalDeviceOptions>(static_cast<size_t>(n)));
}

}  // namespace

std::vector<Device> test_devices(int n) {
  if (test_devices_are_cpus()) return configure_logical_cpus(n);
  if (kind() == Kind::gpu) return parts_of_gpu(0, n);
  const int gpus = num_gpus();
  std::vector<std::vector<Device>> parts;
  for (int gpu = 0; gpu < gpus && gpu < n; ++gpu) parts.push_back(parts_of_gpu(gpu, (n - gpu + gpus - 1) / gpus));
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.push_back(parts[static_cast<size_t>(i % gpus)][static_cast<size_t>(i / gpus)]);
  return devices;
}

c10::Device test_torch_device() { return test_devices_are_cpus() ? c10::Device(c10::kCPU) : gpu_device(0); }

at::Tensor moved(const at::Tensor& tensor) {
  return test_devices_are_cpus() ? tensor : tensor.to(gpu_device(at::accelerator::getDeviceIndex()));
}

bool test_devices_are_cpus() { return kind() == Kind::cpu || kind() == Kind::cpu_and_gpu; }

}  // namespace tutti
