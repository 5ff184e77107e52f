#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/checkpoint/reader.h"
#include "tutti/data/input_context.h"
#include "tutti/estimator/estimator_spec.h"
#include "tutti/estimator/input.h"
#include "tutti/estimator/model_fn.h"
#include "tutti/estimator/model_step.h"
#include "tutti/estimator/run_config.h"
#include "tutti/estimator/session_run_hook.h"
#include "tutti/estimator/variable_store.h"

namespace tutti::estimator {

// What a step on all replicas gave.
struct StepResult {
  RunValues values = {};
  std::vector<ReplicaResult> replicas = {};  // those that had a batch
};

// One run of a model function in one mode under one strategy: its variables, and step after step its calls.
class ModelRun final : public Session {
 public:
  // `if_unrecordable` is told why, where steps cannot be recorded.
  ModelRun(const ModelFn& model_fn, const Params& params, const RunConfig& config, std::filesystem::path model_dir,
           ModeKeys mode, std::function<void(const Error& why)> if_unrecordable);

  // Calls the model function for the first time, which makes its variables and the optimizers' slots; updates nothing.
  // Returns the spec of the first replica.
  EstimatorSpec create(const Batch& batch);
  // Calls the model function on this thread, for an export: no replica, no step. The first call makes the variables.
  EstimatorSpec describe(const Input& features);
  // The variables as a checkpoint has them; in training also the optimizers, the random numbers and, where it is there,
  // the place in the input. Throws: failed_precondition, with all names, for a checkpoint of another model.
  void restore(const std::filesystem::path& checkpoint, BatchIterator* input);
  // Calls the model function, each replica with its batch, and in training updates the variables; or repeats what that
  // computed before. At most as many batches as this process has replicas, in training exactly.
  StepResult step(const std::vector<Batch>& batches);

  // Of training: also saves the place in this input, unless it is null.
  void save(BatchIterator* input);
  void set_saver(std::function<void()> saver) { saver_ = std::move(saver); }

  // Of this process.
  int num_replicas() const { return strategy_->num_local_replicas(); }
  data::InputContext input_context() const;
  // Whether it is so in every process; all ask.
  bool everywhere(bool here) const;
  Strategy& strategy() const { return *strategy_; }
  VariableStore& store() { return store_; }

  int64_t global_step() const override { return store_.global_step(); }
  const std::filesystem::path& model_dir() const override { return model_dir_; }
  std::vector<std::string> variable_names() const override;
  Tensor variable(const std::string& name) const override;
  void save_checkpoint() override;
  bool as_chief(bool own) override;

 private:
  struct Call;  // of the model function on one replica
  Call call_model(const Batch& batch);
  std::vector<Call> call_on_replicas(const std::vector<Batch>& batches, bool updates);
  std::vector<ReplicaResult> results_of(const std::vector<Batch>& batches);
  ModelStep make_step();
  void update(const Call& call, double weight);
  std::vector<double> weights_of(const std::vector<Batch>& batches) const;
  Tensor loss_of(const std::vector<ReplicaResult>& results, const std::vector<double>& weights) const;
  bool takes_input_of(const checkpoint::Reader& reader) const;
  void make_optimizers(const EstimatorSpec& spec);
  void follow_learning_rate(size_t optimizer, double rate);
  void note_learning_rates();
  [[noreturn]] void refuse(const std::string& message, ErrorCode code = ErrorCode::invalid_argument) const;

  const ModelFn& model_fn_;
  const Params& params_;
  const RunConfig& config_;
  std::filesystem::path model_dir_;
  ModeKeys mode_;
  Strategy* strategy_;
  VariableStore store_;
  std::vector<double> learning_rates_;  // that the optimizers have; written where all replicas wait
  std::function<void()> saver_;
  std::function<void(const Error& why)> if_unrecordable_;
  ModelStep step_;  // made by the first step
  struct Saving;
  std::shared_ptr<Saving> saving_;  // made by the first save; while it lives, nobody else saves to the folder
};

// The rows of a batch: of its first tensor, text or column.
int64_t num_rows(const Batch& batch);

}  // namespace tutti::estimator
