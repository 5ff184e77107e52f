#include "tutti/estimator/model_run.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tutti/checkpoint/checkpoint_manager.h"
#include "tutti/checkpoint/restore_state.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/replica_context.h"
#include "tutti/estimator/estimator_state_internal.h"
#include "tutti/estimator/input_position.h"
#include "tutti/estimator/log.h"
#include "tutti/estimator/model_call.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::estimator {
namespace {

// The variables alone, as evaluation and prediction restore them.
class VariablesOnly : public Savable {
 public:
  explicit VariablesOnly(VariableStore& store) : store_(store) {}
  void visit_state(StateVisitor& visitor) override { store_.visit_variables(visitor); }

 private:
  VariableStore& store_;
};

}  // namespace

struct ModelRun::Call {
  EstimatorSpec spec;
  bool loss_is_sum;
  std::map<std::string, Tensor> summaries;
};

ModelRun::ModelRun(const ModelFn& model_fn, const Params& params, const RunConfig& config,
                   std::filesystem::path model_dir, ModeKeys mode,
                   std::function<void(const Error& why)> if_unrecordable)
    : model_fn_(model_fn),
      params_(params),
      config_(config),
      model_dir_(std::move(model_dir)),
      mode_(mode),
      strategy_((mode == ModeKeys::train  ? config->train_distribute
                 : mode == ModeKeys::eval ? config->eval_distribute
                                          : StrategyRef())
                    .get()),
      if_unrecordable_(std::move(if_unrecordable)) {
  if (!strategy_) strategy_ = &get_strategy();
}

void ModelRun::refuse(const std::string& message, ErrorCode code) const {
  throw Error(code, str("model_fn, mode ", to_string(mode_), ": ", message));
}

data::InputContext ModelRun::input_context() const {
  const auto& processes = strategy_->processes();
  return {.num_input_pipelines = processes ? processes->size() : 1,
          .input_pipeline_id = processes ? processes->rank() : 0,
          .num_replicas_in_sync = static_cast<int>(strategy_->num_replicas_in_sync())};
}

bool ModelRun::everywhere(bool here) const {
  int64_t lacking = here ? 0 : 1;
  strategy_->sum_over_processes({&lacking, 1}, "an Estimator's next step");
  return lacking == 0;
}

bool ModelRun::as_chief(bool own) {
  int64_t of_chief = own && strategy_->is_chief() ? 1 : 0;
  strategy_->sum_over_processes({&of_chief, 1}, "an Estimator's clock");
  return of_chief > 0;
}

ModelRun::Call ModelRun::call_model(const Batch& batch) {
  ModelCall call(store_, mode_);
  const keras::WeightSourceGuard guard(call);
  if (mode_ != ModeKeys::predict && !batch.labels.empty() && !model_fn_.takes_labels())
    refuse("it takes no labels, and input_fn gives some");
  EstimatorSpec spec =
      model_fn_(batch.features, mode_ == ModeKeys::predict ? Input() : batch.labels, mode_, params_, config_);
  if (spec->mode != mode_) refuse(str("it returned an EstimatorSpec of mode ", to_string(spec->mode)));
  return {std::move(spec), call.loss_is_sum(), call.summaries()};
}

std::vector<ModelRun::Call> ModelRun::call_on_replicas(const std::vector<Batch>& batches, bool updates) {
  const at::AutoGradMode grad_mode(mode_ == ModeKeys::train);
  const std::vector<double> weights = updates ? weights_of(batches) : std::vector<double>();
  std::vector<std::optional<Call>> calls(batches.size());
  strategy_->run([&] {
    const int64_t id = get_replica_context().replica_id_in_sync_group() - strategy_->first_local_replica();
    const auto replica = static_cast<size_t>(id);
    if (replica >= batches.size()) return;
    calls[replica].emplace(call_model(batches[replica]));
    if (updates) update(*calls[replica], weights[replica]);
  });
  std::vector<Call> results;
  for (auto& call : calls) results.push_back(*std::move(call));
  return results;
}

std::vector<double> ModelRun::weights_of(const std::vector<Batch>& batches) const {
  std::vector<int64_t> shares(batches.size(), 1);
  if (config_->loss_scaling == LossScaling::exact) std::ranges::transform(batches, shares.begin(), num_rows);
  int64_t sum = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  strategy_->sum_over_processes({&sum, 1}, "an Estimator's batches");
  std::vector<double> weights;
  for (const int64_t share : shares) weights.push_back(static_cast<double>(share) / static_cast<double>(sum));
  return weights;
}

void ModelRun::update(const Call& call, double weight) {
  const auto& updates = call.spec->train_op.updates;
  if (updates.size() != store_.optimizers().size())
    refuse(str("its train_op has ", updates.size(), " updates, and had ", store_.optimizers().size(),
               " the first time; each call describes the same step"));
  // All gradients first: the updates change what the graph was computed with.
  std::vector<std::vector<Tensor>> found(updates.size());
  for (size_t i = 0; i < updates.size(); ++i) {
    if (!found[i].empty()) continue;
    const bool shared =
        std::ranges::all_of(updates, [&](const auto& other) { return other.loss.is_same(updates[i].loss); });
    const size_t end = shared && !store_.optimizers()[i].scales_loss() ? updates.size() : i + 1;
    std::vector<Tensor> variables;
    for (size_t j = i; j < end; ++j)
      variables.insert(variables.end(), updates[j].variables.begin(), updates[j].variables.end());
    if (!updates[i].loss.requires_grad())
      refuse("the loss that its train_op minimizes depends on no trained variable, so that there is no gradient");
    const Tensor loss = call.loss_is_sum || weight == 1 ? updates[i].loss : updates[i].loss * weight;
    const std::vector<Tensor> all = gradients(store_.optimizers()[i].scale_loss(loss), variables);
    auto next = all.begin();
    for (size_t j = i; j < end; ++j) {
      found[j].assign(next, next + static_cast<int64_t>(updates[j].variables.size()));
      next += static_cast<int64_t>(updates[j].variables.size());
    }
  }
  for (size_t i = 0; i < updates.size(); ++i) {
    const keras::optimizers::Optimizer& optimizer = store_.optimizers()[i];
    const auto& now = *updates[i].optimizer;
    if (!now.has_schedule()) follow_learning_rate(i, now.learning_rate());
    optimizer.apply_gradients(found[i], updates[i].variables);
  }
}

void ModelRun::follow_learning_rate(size_t optimizer, double rate) {
  if (rate == learning_rates_[optimizer]) return;
  get_replica_context().meet("an Estimator's learning rate", [&] {
    store_.optimizers()[optimizer].set_learning_rate(rate);
    learning_rates_[optimizer] = rate;
  });
}

void ModelRun::note_learning_rates() {
  learning_rates_.clear();
  for (const auto& optimizer : store_.optimizers())
    learning_rates_.push_back(optimizer.has_schedule() ? 0 : optimizer.learning_rate());
}

Tensor ModelRun::loss_of(const std::vector<ReplicaResult>& results, const std::vector<double>& weights) const {
  if (!results[0].loss.defined()) return {};
  const c10::NoGradGuard no_grad;
  Tensor sum;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& loss = results[i].loss;
    const Tensor share = results[i].loss_is_sum || weights[i] == 1 ? loss : loss * weights[i];
    sum = sum.defined() ? sum + share.to(sum.device()) : share;
  }
  return strategy_->processes() ? strategy_->reduce(ReduceOp::sum, sum) : sum;
}

EstimatorSpec ModelRun::create(const Batch& batch) {
  log_info("Calling model_fn.");
  store_.write_global_step();
  std::vector<Call> calls = call_on_replicas(std::vector<Batch>(static_cast<size_t>(num_replicas()), batch), false);
  store_.reset_untrained();
  if (mode_ == ModeKeys::train) make_optimizers(calls[0].spec);
  log_info("Done calling model_fn.");
  return std::move(calls[0].spec);
}

EstimatorSpec ModelRun::describe(const Input& features) {
  const c10::NoGradGuard no_grad;
  return call_model({features}).spec;
}

void ModelRun::make_optimizers(const EstimatorSpec& spec) {
  if (!spec->train_op.counts_step)
    refuse("its train_op does not count; hand get_global_step() to minimize, or the training never comes to a step");
  for (const auto& update : spec->train_op.updates) {
    if (update.variables.empty())
      refuse("its train_op has no variable to update: no layer with weights was made in it");
    store_.optimizers().emplace_back(update.optimizer);
    store_.optimized().push_back(update.variables);
    const auto build = [&] { store_.optimizers().back().build(update.variables); };
    if (served_strategy(*strategy_))
      strategy_->build(build);  // where servers hear of it
    else
      build();
  }
  note_learning_rates();
}

void ModelRun::restore(const std::filesystem::path& folder, BatchIterator* input) {
  const checkpoint::Reader reader(checkpoint::posix_file_system(), folder);
  const auto require_all = [&](const checkpoint::Differences& differences) {
    if (!differences.missing.empty())
      refuse(str("the checkpoint ", folder, " is of another model: ", differences.to_string()),
             ErrorCode::failed_precondition);
  };
  if (mode_ != ModeKeys::train) {
    VariablesOnly variables(store_);
    const std::vector<checkpoint::NamedTrackable> objects{{"variables", variables}};
    require_all(checkpoint::compare(reader, objects));
    checkpoint::restore(reader, objects);
    return;
  }
  std::vector<checkpoint::NamedTrackable> objects{{"variables", store_}};
  std::optional<InputPosition> position;
  if (input && takes_input_of(reader)) objects.push_back({"input", position.emplace(*input, strategy_->processes())});
  const Checkpoint checkpoint(objects);
  require_all(checkpoint::compare(reader, objects));
  checkpoint.restore(folder).expect_partial();
  note_learning_rates();
}

std::vector<ReplicaResult> ModelRun::results_of(const std::vector<Batch>& batches) {
  std::vector<ReplicaResult> results;
  for (const Call& call : call_on_replicas(batches, mode_ == ModeKeys::train)) {
    results.push_back({.loss = call.spec->loss,
                       .loss_is_sum = call.loss_is_sum,
                       .predictions = call.spec->predictions,
                       .metrics = call.spec->eval_metric_ops,
                       .summaries = call.summaries});
    results.back().visit_tensors([](Tensor& tensor) { tensor = tensor.detach(); });
  }
  return results;
}

ModelStep ModelRun::make_step() {
  const ModelStep anew = [this](const std::vector<Batch>& batches) { return results_of(batches); };
  if (!config_->record_steps) return anew;
  const bool is_served = served_strategy(*strategy_) != nullptr;
  if (strategy_->processes() || is_served) {
    if (is_served || strategy_->is_chief())
      if_unrecordable_(Error(ErrorCode::failed_precondition,
                             "the processes of its strategy meet in each step; RunConfig({.record_steps = false}) "
                             "asks for that, and then nothing is said"));
    return anew;
  }
  return recorded_step(str("model_fn, mode ", to_string(mode_)), anew, if_unrecordable_);
}

StepResult ModelRun::step(const std::vector<Batch>& batches) {
  if (batches.empty()) throw std::logic_error("a step without a batch");
  if (!step_) step_ = make_step();
  store_.write_global_step();
  StepResult result{.replicas = step_(batches)};
  result.values.global_step = store_.global_step();
  result.values.loss = loss_of(result.replicas, weights_of(batches));
  result.values.tensors = result.replicas[0].summaries;
  for (const auto& [name, value] : result.replicas[0].predictions.numbers) result.values.tensors[name] = value;
  if (mode_ == ModeKeys::train) store_.set_global_step(store_.global_step() + 1);
  return result;
}

bool ModelRun::takes_input_of(const checkpoint::Reader& reader) const {
  const int saved = InputPosition::count_in(reader, "input/"), now = input_context().num_input_pipelines;
  if (saved > 0 && saved != now)
    warn(str("Estimator: the checkpoint ", reader.folder(), " has the places in the input of ", saved,
             " processes, and there are ", now, "; the input begins anew"));
  return saved == now;
}

// What a training saves with. Its last checkpoint has no place in the input.
struct ModelRun::Saving : Savable {
  Saving(VariableStore& store, const std::filesystem::path& folder, const CheckpointManagerOptions& options)
      : manager(Checkpoint({{"variables", store}, {"input", *this}}), folder, options) {}

  void visit_state(StateVisitor& visitor) override {
    if (input) input->visit_state(visitor);
  }

  std::optional<InputPosition> input;
  CheckpointManager manager;
};

void ModelRun::save(BatchIterator* input) {
  if (!saving_) {
    const auto keep = config_->keep_checkpoint_max;
    CheckpointManagerOptions options{.max_to_keep = keep && *keep > 0 ? keep : std::nullopt};
    // More seconds than an integer has are never over.
    const double keep_secs = std::ceil(config_->keep_checkpoint_every_n_hours * 3600);
    if (keep_secs < 1e18) options.keep_every = std::chrono::seconds(static_cast<int64_t>(keep_secs));
    saving_ = std::make_shared<Saving>(store_, model_dir_, options);
  }
  saving_->input.reset();
  if (input) saving_->input.emplace(*input, strategy_->processes());
  saving_->manager.save(global_step());
}

void ModelRun::save_checkpoint() {
  if (!saver_) refuse("only training saves checkpoints", ErrorCode::failed_precondition);
  saver_();
}

std::vector<std::string> ModelRun::variable_names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : store_.tensors()) names.push_back(name);
  return names;
}

Tensor ModelRun::variable(const std::string& name) const {
  const auto tensors = store_.tensors();
  const auto found = tensors.find(name);
  if (found == tensors.end())
    throw Error(ErrorCode::not_found, str("there is no variable '", name, "', but ", str_list(variable_names())));
  const c10::NoGradGuard no_grad;
  return (is_mesh_tensor(found->second) ? gather(found->second) : found->second).detach().clone();
}

int64_t num_rows(const Batch& batch) {
  const Input& features = batch.features;
  if (features.is_text()) return features.strings().shape().at(0);
  if (!features.is_columns()) return features.tensor().size(0);
  const data::Columns& columns = features.columns();
  if (!columns.numbers.empty()) return columns.numbers.begin()->second.size(0);
  return columns.strings.empty() ? 0 : columns.strings.begin()->second.shape().at(0);
}

}  // namespace tutti::estimator
