#include "tutti/function/seed_watch.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>
#include <utility>

#include "tutti/device/gpu.h"

namespace tutti {
namespace {

at::Generator default_generator(c10::Device device) { return at::globalContext().defaultGenerator(device); }

}  // namespace

// That of the generator, where nothing was drawn since it was set.
std::optional<uint64_t> SeedWatch::unused_seed() {
  auto* const generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::scoped_lock lock(generator->mutex_);
  const at::mt19937_data_pod state = generator->engine().data();
  return state.left_ == 1 && state.next_ == 0 ? std::optional(state.seed_) : std::nullopt;
}

std::optional<Seed> SeedWatch::look() {
  const auto before = std::exchange(unused_, unused_seed());
  if (!unused_ || unused_ == before) return {};
  bool of_gpus = num_gpus() > 0;
  for (int i = 0; i < num_gpus(); ++i) of_gpus &= default_generator(gpu_device(i)).current_seed() == *unused_;
  return Seed{*unused_, of_gpus};
}

void set_seed(Seed seed) {
  const auto set = [&](at::Generator generator) {
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(seed.value);
  };
  set(default_generator(c10::kCPU));
  for (int i = 0; seed.of_gpus && i < num_gpus(); ++i) set(default_generator(gpu_device(i)));
}

}  // namespace tutti
