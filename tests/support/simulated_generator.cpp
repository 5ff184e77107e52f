#include "tests/support/simulated_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cstring>
#include <mutex>
#include <vector>

#include "tests/support/simulated_devices.h"

namespace tutti {
namespace {

// Its state is a seed and how far it has come from there, as of CUDA's.
class SimulatedGenerator final : public c10::GeneratorImpl {
 public:
  SimulatedGenerator(int device, uint64_t seed)
      : GeneratorImpl(simulated_device(device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), state_{seed, 0} {}

  void set_current_seed(uint64_t seed) override { state_ = {seed, 0}; }
  void set_offset(uint64_t offset) override { state_[1] = offset; }
  uint64_t get_offset() const override { return state_[1]; }
  uint64_t current_seed() const override { return state_[0]; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return current_seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.numel() == sizeof state_ && state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
                "a simulated device's generator has a state of ", sizeof state_, " bytes");
    std::memcpy(state_.data(), state.data(), sizeof state_);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::Tensor state = at::detail::empty_cpu({sizeof state_}, at::kByte);
    std::memcpy(state.mutable_data_ptr(), state_.data(), sizeof state_);
    return state.getIntrusivePtr();
  }

  // For one op.
  at::Generator next() {
    const std::lock_guard lock(mutex_);
    const uint64_t place = state_[1];
    state_[1] += 4;
    return at::detail::createCPUGenerator(state_[0] + 0x9e3779b97f4a7c15U * place);
  }

 private:
  SimulatedGenerator* clone_impl() const override {
    auto* const copy = new SimulatedGenerator(device().index(), 0);
    copy->state_ = state_;
    return copy;
  }

  std::array<uint64_t, 2> state_;
};

}  // namespace

at::Generator make_simulated_generator(int device, uint64_t seed) {
  return at::make_generator<SimulatedGenerator>(device, seed);
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
  return own->next();
}

}  // namespace tutti
