#include "tutti/data/graph/replica_steps.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/new_empty.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "tutti/collectives/processes.h"
#include "tutti/core/bytes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/auto_shard.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/state.h"
#include "tutti/tensor/across_processes.h"

namespace tutti::data::graph {

int64_t compute_batch_size(const NodePtr& dataset) {
  if (dataset->batch_size == kNotBatched)
    throw Error(ErrorCode::invalid_argument,
                "distribute: the dataset's elements are scalars, which cannot be divided among replicas; call "
                "batch(global_batch_size) on it first");
  return dataset->batch_size;
}

WorkerSlot slot_of(const std::shared_ptr<Processes>& processes, int replicas_per_worker) {
  if (!processes) return {.replicas_per_worker = replicas_per_worker};
  return {.worker = processes->rank(), .num_workers = processes->size(), .replicas_per_worker = replicas_per_worker};
}

NodePtr deal_to_replicas(const NodePtr& input, const WorkerSlot& slot) {
  if (slot.num_workers < 1 || slot.replicas_per_worker < 1)
    throw Error(ErrorCode::invalid_argument, str("distribute: ", slot.num_workers, " workers with ",
                                                 slot.replicas_per_worker, " replicas; there must be at least one"));
  const int num_replicas = slot.num_workers * slot.replicas_per_worker;
  NodePtr dealt = input;
  if (num_replicas > 1) {
    const int64_t global_batch = compute_batch_size(input);
    dealt = global_batch < 1 ? rebatch_legacy(input, num_replicas)
                             : rebatch(input, batch_sizes_for_worker(global_batch, slot), {});
  }
  return auto_shard(dealt, {.num_pipelines = slot.num_workers, .index = slot.worker, .num_replicas = num_replicas});
}

Element place(Element element, int replica_id, const Placer& placer) {
  if (!placer) return element;
  const Keys keys = element.keys();
  std::vector<Leaf> leaves = std::move(element).leaves();
  for (Leaf& leaf : leaves)
    if (auto* tensor = std::get_if<Tensor>(&leaf)) *tensor = placer(*tensor, replica_id);
  return Element(std::move(leaves), keys);
}

namespace {

// What a replica gets for which nothing is left.
Element no_rows(const Element& other, bool row_sizes_vary) {
  num_rows(other.leaves(), "distribute");
  std::vector<Leaf> leaves = narrow_rows(other.leaves(), 0, 0);
  for (Leaf& leaf : leaves) {
    if (!row_sizes_vary) break;
    const std::vector<int64_t> none(shape_of(leaf).size(), 0);
    if (auto* tensor = std::get_if<Tensor>(&leaf))
      *tensor = tensor->new_empty(none);
    else
      leaf = Strings({}, none);
  }
  return Element(std::move(leaves), other.keys());
}

// The same in memory of its own; nothing where a leaf has no rows at all.
std::optional<Element> sample_of(const Element& element) {
  std::vector<Leaf> leaves = element.leaves();
  for (Leaf& leaf : leaves) {
    const auto shape = shape_of(leaf);
    if (shape.empty()) return {};
    std::vector<int64_t> sizes(shape.begin(), shape.end());
    sizes[0] = 0;
    if (auto* tensor = std::get_if<Tensor>(&leaf))
      *tensor = tensor->new_empty(sizes);
    else
      leaf = Strings({}, sizes);
  }
  return Element(std::move(leaves), element.keys());
}

// The states of several processes as one begin with this.
constexpr std::string_view kOfProcesses = "states of processes";

Tensor tensor_of(std::span<const uint8_t> bytes) {
  Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::TensorOptions(at::kByte));
  std::copy(bytes.begin(), bytes.end(), tensor.mutable_data_ptr<uint8_t>());
  return tensor;
}

std::span<const uint8_t> bytes_of(const Tensor& state) {
  return {state.const_data_ptr<uint8_t>(), static_cast<size_t>(state.numel())};
}

// Of what all processes have saved, the part of this one.
Tensor own_state(const Tensor& state, const std::shared_ptr<Processes>& processes) {
  const int64_t here = processes ? processes->size() : 1;
  const Tensor plain = state.cpu().contiguous();
  ByteReader reader(bytes_of(plain), "restoring a distributed iterator");
  std::string_view begin(reinterpret_cast<const char*>(plain.const_data_ptr<uint8_t>()), plain.nbytes());
  begin.remove_prefix(std::min(begin.size(), sizeof(int64_t)));
  const int64_t saved = begin.starts_with(kOfProcesses) ? (reader.text(), reader.number()) : 1;
  if (saved != here)
    throw Error(ErrorCode::failed_precondition,
                str("restoring a distributed iterator: its state was saved by ", saved, " processes, and here ",
                    here == 1 ? "is" : "are", ' ', here, "; each has a position of its own in its part of the data"));
  if (!processes) return state;
  for (int rank = 0; rank < processes->rank(); ++rank) reader.text();
  const std::string own = reader.text();
  return tensor_of({reinterpret_cast<const uint8_t*>(own.data()), own.size()});
}

}  // namespace

ReplicaSteps::ReplicaSteps(const std::vector<NodePtr>& pipelines, int num_replicas, Placer placer,
                           std::shared_ptr<Processes> processes)
    : num_replicas_(static_cast<size_t>(num_replicas)), placer_(std::move(placer)), processes_(std::move(processes)) {
  passes_.reserve(pipelines.size());
  for (const NodePtr& pipeline : pipelines) passes_.emplace_back(pipeline);
  row_sizes_vary_ = std::ranges::any_of(pipelines, [](const NodePtr& pipeline) { return pipeline->row_sizes_vary; });
  uniform_ = std::ranges::all_of(pipelines, [](const NodePtr& pipeline) { return pipeline->uniform; });
}

void ReplicaSteps::fill() {
  const size_t replicas_per_pipeline = num_replicas_ / passes_.size();
  while (filled_.size() < num_replicas_) {
    Element element;
    if (!passes_[filled_.size() / replicas_per_pipeline].next(element)) without_.push_back(filled_.size());
    filled_.push_back(std::move(element));
  }
}

// Takes the elements of a step; returns whether there is one, which all processes agree on.
bool ReplicaSteps::agree_on_step() {
  std::exception_ptr failure;
  try {
    fill();
  } catch (...) {
    if (!processes_) throw;
    failure = std::current_exception();
  }
  const bool has_any = without_.size() < num_replicas_ && !failure;
  if (!processes_) return has_any && !(uniform_ && !without_.empty());
  for (size_t i = 0; has_any && !sample_ && i < filled_.size(); ++i)
    if (std::ranges::count(without_, i) == 0) sample_ = sample_of(filled_[i]);
  enum { kWith, kWithout, kLacksSample, kFailed };
  int64_t counts[] = {has_any, !without_.empty(), !has_any && !sample_, failure != nullptr};
  processes_->sum(counts, "whether there is data");
  if (failure) std::rethrow_exception(failure);
  if (counts[kFailed] > 0)
    throw Error(ErrorCode::cancelled,
                "distribute: the data of another process has failed; its error is the one to read");
  if (counts[kWith] == 0 || (uniform_ && counts[kWithout] > 0)) return false;
  if (counts[kLacksSample] > 0) share_sample();
  return true;
}

// A process whose data was empty from the start gets to know what the others' elements are like.
void ReplicaSteps::share_sample() {
  Tensor own;
  if (sample_) {
    StateWriter writer({});
    writer.element(*sample_);
    own = writer.finish();
  }
  const auto all = gather_tensors(*processes_, {&own, 1}, "what elements are like");
  for (size_t rank = 0; !sample_ && rank < all.size(); ++rank)
    if (all[rank][0].defined()) sample_ = StateReader(all[rank][0], {}).element();
}

std::vector<Element> ReplicaSteps::next() {
  const bool has_step = agree_on_step();
  step_ = std::exchange(filled_, {});
  const std::vector<size_t> without = std::exchange(without_, {});
  if (!has_step) step_.clear();
  size_t other = 0;
  while (other < without.size() && without[other] == other) ++other;
  for (const size_t replica : without)
    if (!step_.empty())
      step_[replica] = no_rows(other < num_replicas_ ? step_[other] : sample_.value(), row_sizes_vary_);
  return placed(step_);
}

Tensor ReplicaSteps::save(bool before_last_step) {
  const Tensor own =
      save_passes(passes_, before_last_step ? std::span<const Element>(step_) : std::span<const Element>());
  if (!processes_) return own;
  ByteWriter writer;
  writer.text(kOfProcesses);
  writer.number(processes_->size());
  for (const auto& bytes : processes_->gather(bytes_of(own), "state of an iterator"))
    writer.text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return tensor_of(writer.bytes());
}

RestoredPasses ReplicaSteps::read(const Tensor& state) {
  RestoredPasses restored = read_passes(passes_, own_state(state, processes_), num_replicas_);
  std::vector<Element> step = restored.taken;
  restored.taken = placed(step);
  restored.go = [this, go = std::move(restored.go), step = std::move(step)] {
    go();
    step_ = step;
    filled_.clear();
    without_.clear();
  };
  return restored;
}

std::vector<Element> ReplicaSteps::placed(const std::vector<Element>& step) const {
  std::vector<Element> placed;
  for (size_t replica = 0; replica < step.size(); ++replica)
    placed.push_back(place(step[replica], static_cast<int>(replica), placer_));
  return placed;
}

}  // namespace tutti::data::graph
