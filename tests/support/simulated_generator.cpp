#include "tests/support/simulated_generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <vector>

#include "tests/support/simulated_devices.h"

namespace tutti {
namespace {

class SimulatedGenerator final : public c10::GeneratorImpl {
 public:
  SimulatedGenerator(int device, at::Generator of_host)
      : GeneratorImpl(simulated_device(device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host(std::move(of_host)) {}

  void set_current_seed(uint64_t seed) override { host.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { host.set_offset(offset); }
  uint64_t get_offset() const override { return host.get_offset(); }
  uint64_t current_seed() const override { return host.current_seed(); }
  uint64_t seed() override {
    at::Generator all = host;
    return all.seed();
  }
  void set_state(const c10::TensorImpl& state) override { host.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return host.unsafeGetGeneratorImpl()->get_state(); }

  at::Generator host;

 private:
  SimulatedGenerator* clone_impl() const override { return new SimulatedGenerator(device().index(), host.clone()); }
};

}  // namespace

at::Generator make_simulated_generator(int device, uint64_t seed) {
  return at::make_generator<SimulatedGenerator>(device, at::detail::createCPUGenerator(seed));
}

const at::Generator& default_simulated_generator(int device) {
  static auto& all = *new std::vector<at::Generator>([] {
    std::vector<at::Generator> made;
    for (int index = 0; index < kSimulatedDevices; ++index)
      made.push_back(make_simulated_generator(index, c10::default_rng_seed_val));
    return made;
  }());
  return all.at(static_cast<size_t>(device < 0 ? current_simulated_device() : device));
}

at::Generator host_generator_of(const at::Generator& generator) {
  auto* const own = dynamic_cast<SimulatedGenerator*>(generator.unsafeGetGeneratorImpl());
  TORCH_CHECK(own, "Expected a generator of a simulated device but found one of ", generator.device());
  return own->host;
}

}  // namespace tutti
