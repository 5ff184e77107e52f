#pragma once

#include <c10/core/InferenceMode.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "tutti/checkpoint/reader.h"
#include "tutti/estimator/estimator.h"
#include "tutti/tensor/view.h"

namespace tutti {
class ParameterServerStrategy;
}

namespace tutti::estimator {

struct Estimator::State {
  State(ModelFn function, std::filesystem::path folder, RunConfig configuration, Params parameters,
        std::optional<WarmStartSettings> settings)
      : model_fn(std::move(function)),
        model_dir(std::move(folder)),
        config(std::move(configuration)),
        params(std::move(parameters)),
        warm_start(std::move(settings)) {}

  ModelFn model_fn;
  std::filesystem::path model_dir;
  RunConfig config;
  Params params;
  std::optional<WarmStartSettings> warm_start;
  mutable std::array<std::atomic<bool>, 3> told_unrecordable = {};  // by mode

  ModelRun run(ModeKeys mode) const {
    return {model_fn,  params, config,
            model_dir, mode,   [this, mode](const Error& why) { tell_unrecordable(mode, why); }};
  }

 private:
  // Once for each mode.
  void tell_unrecordable(ModeKeys mode, const Error& why) const;
};

// Where runs take place, wherever a program calls for them: outside of scopes, and not in inference mode, whose tensors
// are not trained on. Throws: failed_precondition in a replica.
class OutsideOfScopes {
 public:
  explicit OutsideOfScopes(const char* function) : outside_(required(function)) {}

 private:
  static ThreadView required(const char* function) {
    require_global_view(function, "it runs the replicas itself, call it outside of run");
    return {};
  }

  ThreadViewGuard outside_;
  c10::InferenceMode no_inference_{false};
};

// Throws: invalid_argument, with the function's name, for one that is a null pointer.
void require_hooks(const char* function, const Hooks& hooks, const Listeners& listeners = {});

// Restores what an evaluation or a prediction is of, if there is a checkpoint. Where the program named none, and a
// training has removed it meanwhile, the newest takes its place.
void restore_evaluated(ModelRun& run, std::optional<std::filesystem::path>& checkpoint, bool is_named);

// How many updates a checkpoint has seen. Throws: failed_precondition for one that no Estimator wrote.
int64_t global_step_of(const checkpoint::Reader& reader);

// The first batch of an input, by which a model is made. Throws: invalid_argument, with the mode, where there is none.
Batch first_batch(const BatchIterator& input, ModeKeys mode);

// Gives the variables of a run their values, which run.create has made: hooks begin, those of its spec too, the
// checkpoint is restored, and the hooks hear of the session. `model_made` is called when hooks have begun.
void begin_session(ModelRun& run, const EstimatorSpec& spec, Hooks& hooks, const std::function<void()>& model_made,
                   const std::function<void()>& give_values);

// The strategy whose workers and servers are processes; null for another one.
ParameterServerStrategy* served_strategy(const StrategyRef& strategy);

// Calls a member of each hook.
template <class... Parameters, class... Arguments>
void call_hooks(const Hooks& hooks, void (SessionRunHook::*member)(Parameters...), Arguments&&... arguments) {
  for (const auto& hook : hooks) ((*hook).*member)(arguments...);
}

}  // namespace tutti::estimator
