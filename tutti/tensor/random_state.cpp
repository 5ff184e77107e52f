#include "tutti/tensor/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "tutti/collectives/processes.h"
#include "tutti/core/bytes.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/siphash.h"
#include "tutti/device/gpu.h"

namespace tutti {
namespace {

// All that exist, in the order in which they were made.
struct Registry {
  std::mutex mutex;
  std::vector<ReplicaGenerators*> generators;
};

Registry& registry() {
  static Registry& all = *new Registry;  // strategies may outlive any static object
  return all;
}

void save(ByteWriter& writer, at::Generator& generator) {
  const std::scoped_lock lock(generator.mutex());
  const Tensor state = generator.get_state();
  writer.text({static_cast<const char*>(state.const_data_ptr()), state.nbytes()});
}

Tensor tensor_of(const std::vector<uint8_t>& bytes) {
  return at::from_blob(const_cast<uint8_t*>(bytes.data()), {static_cast<int64_t>(bytes.size())}, at::kByte).clone();
}

at::Generator default_generator() { return at::detail::getDefaultCPUGenerator(); }

std::vector<at::Generator> default_generators_of_gpus() {
  std::vector<at::Generator> all;
  for (int i = 0; i < num_gpus(); ++i) all.push_back(at::globalContext().defaultGenerator(gpu_device(i)));
  return all;
}

bool is_of_another_kind(const std::string& state, c10::Device device) {
  constexpr size_t kBytesOfGpu = 16;  // CUDA's seed and offset
  return state.size() == (device.is_cpu() ? kBytesOfGpu : default_generator().get_state().nbytes());
}

// The state of a generator of another kind of device seeds this one, which does not have that one's sequence.
void restore(ByteReader& reader, at::Generator& generator) {
  const std::string text = reader.text();
  const std::scoped_lock lock(generator.mutex());
  if (is_of_another_kind(text, generator.device())) return generator.set_current_seed(siphash24(text, 0, 0));
  try {
    generator.set_state(tensor_of({text.begin(), text.end()}));
  } catch (const c10::Error& error) {
    reader.damaged(error.what_without_backtrace());
  }
}

}  // namespace

ReplicaGenerators::ReplicaGenerators(std::vector<c10::Device> devices, std::shared_ptr<Processes> processes)
    : devices_(std::move(devices)), processes_(std::move(processes)) {
  if (is_one_replica()) return;
  const std::scoped_lock lock(registry().mutex);
  registry().generators.push_back(this);
}

ReplicaGenerators::~ReplicaGenerators() {
  const std::scoped_lock lock(registry().mutex);
  std::erase(registry().generators, this);
}

size_t ReplicaGenerators::first_replica() const {
  return processes_ ? static_cast<size_t>(processes_->rank()) * devices_.size() : 0;
}

void ReplicaGenerators::follow_seed() {
  if (is_one_replica()) return;
  const RandomSeed seed = random_seed();
  if (!seeded_.empty() && seeded_[0] == seed) return;
  seeded_ = {seed};
  for (size_t r = 0; r < devices_.size(); ++r) {
    at::Generator seeded = make_replica_generator(seed.seed, static_cast<int>(first_replica() + r), devices_[r]);
    if (r < generators_.size())
      generators_[r].set_state(seeded.get_state());  // recorded functions hold it
    else
      generators_.push_back(std::move(seeded));
  }
}

void ReplicaGenerators::check_seed() {
  if (is_one_replica() || warned_) return;
  const RandomSeed now = random_seed();
  if (now.seed == seeded_[0].seed || now.times_set != seeded_[0].times_set) return;
  warned_ = true;
  warn(
      "torch::manual_seed was called while replicas ran: it is one for all of them, and they follow it in the next run "
      "only. Call set_random_seed() outside of run");
}

at::Generator* ReplicaGenerators::of(int replica) {
  return generators_.empty() ? nullptr : &generators_[static_cast<size_t>(replica)];
}

Tensor random_state() {
  ByteWriter writer;
  at::Generator own = default_generator();
  save(writer, own);
  const std::scoped_lock lock(registry().mutex);
  writer.number(static_cast<int64_t>(registry().generators.size()));
  for (ReplicaGenerators* strategy : registry().generators) {
    strategy->follow_seed();
    const int64_t processes = strategy->processes_ ? strategy->processes_->size() : 1;
    writer.number(processes * static_cast<int64_t>(strategy->generators_.size()));
    ByteWriter here;
    for (at::Generator& generator : strategy->generators_) save(here, generator);
    if (!strategy->processes_) writer.raw(here.bytes().data(), here.bytes().size());
    if (!strategy->processes_) continue;
    for (const auto& bytes : strategy->processes_->gather(here.bytes(), "state of random numbers"))
      writer.raw(bytes.data(), bytes.size());
  }
  std::vector<at::Generator> of_gpus = default_generators_of_gpus();
  if (!of_gpus.empty()) writer.number(static_cast<int64_t>(of_gpus.size()));
  for (at::Generator& generator : of_gpus) save(writer, generator);
  return tensor_of(writer.bytes());
}

void restore_random_state(const Tensor& state) {
  if (state.dim() != 1 || state.scalar_type() != at::kByte)
    throw Error(ErrorCode::data_loss, "restoring random numbers: their state is not a tensor of bytes");
  const Tensor bytes = state.cpu().contiguous();
  ByteReader reader({bytes.const_data_ptr<uint8_t>(), bytes.nbytes()}, "restoring random numbers");
  at::Generator own = default_generator();
  restore(reader, own);
  const std::scoped_lock lock(registry().mutex);
  const auto strategies = static_cast<size_t>(reader.count(sizeof(int64_t)));
  for (size_t i = 0; i < strategies; ++i) {
    ReplicaGenerators* strategy = i < registry().generators.size() ? registry().generators[i] : nullptr;
    if (strategy) strategy->follow_seed();
    const auto replicas = static_cast<size_t>(reader.count(sizeof(int64_t)));
    const size_t first = strategy ? strategy->first_replica() : 0;
    for (size_t r = 0; r < replicas; ++r) {
      if (strategy && r >= first && r - first < strategy->generators_.size())
        restore(reader, strategy->generators_[r - first]);
      else
        reader.text();
    }
  }
  std::vector<at::Generator> of_gpus = default_generators_of_gpus();
  const int64_t saved_gpus = reader.left() > 0 ? reader.count(sizeof(int64_t)) : 0;
  for (size_t i = 0; std::cmp_less(i, saved_gpus); ++i) {
    if (i < of_gpus.size())
      restore(reader, of_gpus[i]);
    else
      reader.text();
  }
  reader.finish();
}

}  // namespace tutti
