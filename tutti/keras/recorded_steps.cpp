#include "tutti/keras/recorded_steps.h"

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/compiled_strategy.h"
#include "tutti/function/replay_memory.h"
#include "tutti/keras/model_impl.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::keras {
namespace {

constexpr int kMaxTraces = 16;  // shapes of batches

// Says why a model's steps run eagerly: each reason once, for whichever of fit, evaluate and predict finds it first.
class Reasons {
 public:
  void say(const std::string& function, const Error& why) {
    std::string reason = why.what();
    if (reason.starts_with(function + ": ")) reason.erase(0, function.size() + 2);
    if (why.code() == ErrorCode::resource_exhausted)
      reason = str("batches of more than ", kMaxTraces,
                   " shapes came, and those of further ones are not recorded. Give batches few sizes: batch() with "
                   "drop_remainder, sequences padded to few lengths");
    {
      const std::lock_guard lock(mutex_);
      if (!said_.insert(reason).second) return;
    }
    warn(str(function, ": ", reason,
             ". Such steps run eagerly; compile({.run_eagerly = true}) has them do so from the start, without this "
             "line"));
  }

 private:
  std::mutex mutex_;
  std::set<std::string> said_;
};

// Between steps layers are added and removed, frozen, and get other policies.
void add_state(const layers::LayerImpl& layer, uint64_t& state) {
  const auto add = [&](uint64_t number) {
    state = (state ^ number) * 0x9E3779B97F4A7C15;
    state ^= state >> 29;
  };
  add(reinterpret_cast<uintptr_t>(&layer));
  add(2 * static_cast<uint64_t>(layer.dtype_policy()) + layer.trainable());
  for (const auto& inner : layer.sublayers()) add_state(*inner, state);
}

// What was made in a scope is mesh tensors, which replicas cannot share in a recording. They see the whole value.
void make_plain(PerReplica<Batch>& shards) {
  for (size_t replica = 0; replica < shards.size(); ++replica)
    for (Tensors* const part : {&shards[replica].x, &shards[replica].y, &shards[replica].sample_weight})
      for (Tensor& tensor : part->values)
        if (is_mesh_tensor(tensor)) tensor = gather(tensor);
}

uint64_t state_of(const ModelImpl& model) {
  uint64_t state = 0;
  add_state(model, state);
  return state;
}

auto step_of(const ModelImpl& model, ModelImpl::Step step) {
  return [&model, step](const PerReplica<Batch>& shards, int64_t global_size, int64_t first_sample, uint64_t) {
    return model.run_replicas(step, shards, global_size, first_sample);
  };
}

}  // namespace

RecordedSteps::RecordedSteps(const ModelImpl& model)
    : RecordedSteps(model, [reasons = std::make_shared<Reasons>()](const std::string& function, const Error& why) {
        reasons->say(function, why);
      }) {}

// Where a compiler has to have the program, the error is thrown.
FunctionOptions RecordedSteps::options(const char* function, const Say& say) const {
  FunctionOptions options{.name = str(model_.name(), '.', function), .max_traces = kMaxTraces, .memory = memory_};
  if (!is_compiled(model_.strategy()))
    options.if_unrecordable = [name = options.name, say](const Error& why) { say(name, why); };
  return options;
}

RecordedSteps::RecordedSteps(const ModelImpl& model, const Say& say)
    : model_(model),
      memory_(std::make_shared<ReplayMemory>()),
      train_(step_of(model, ModelImpl::Step::train), options("fit", say)),
      test_(step_of(model, ModelImpl::Step::test), options("evaluate", say)),
      predict_([&model](const PerReplica<Batch>& shards, uint64_t) { return model.predict_replicas(shards); },
               options("predict", say)) {}

PerReplica<StepShare> RecordedSteps::train(PerReplica<Batch>& shards, int64_t global_size, int64_t first_sample) const {
  make_plain(shards);
  return train_(shards, global_size, first_sample, state_of(model_));
}

PerReplica<StepShare> RecordedSteps::test(PerReplica<Batch>& shards, int64_t global_size, int64_t first_sample) const {
  make_plain(shards);
  return test_(shards, global_size, first_sample, state_of(model_));
}

PerReplica<std::vector<Tensor>> RecordedSteps::predict(PerReplica<Batch> shards) const {
  make_plain(shards);
  return predict_(shards, state_of(model_));
}

int64_t RecordedSteps::tracing_count() const {
  return train_.tracing_count() + test_.tracing_count() + predict_.tracing_count();
}

}  // namespace tutti::keras
