#pragma once

#include <array>
#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "tutti/checkpoint/reader.h"
#include "tutti/estimator/estimator.h"

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
