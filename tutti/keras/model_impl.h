#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/batches.h"
#include "tutti/keras/compile_options.h"
#include "tutti/keras/compiled_outputs.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/running_logs.h"
#include "tutti/keras/summary.h"

namespace tutti::keras {

// The batch that a shard is cut from.
struct GlobalBatch {
  int64_t size = 0;
  int64_t num_replicas = 1;
};

class RecordedSteps;

// What stands behind a Model; derive from it to write one:
//
//   class TwoLayers : public keras::ModelImpl {
//    public:
//     TwoLayers() : ModelImpl("TwoLayers") {}
//     Tensor call(const Tensor& x, const layers::CallOptions& options) const override {
//       return out_(hidden_(x, options), options);
//     }
//
//    private:
//     layers::Dense hidden_ = add(layers::Dense({.units = 4}));
//     layers::Dense out_ = add(layers::Dense({.units = 1}));
//   };
//   const keras::Model model(std::make_shared<TwoLayers>());
//
// It trains under the strategy in whose scope it was made, which must outlive it. The steps are const because all
// replicas run them at once, each on its own shard.
class ModelImpl : public layers::LayerImpl {
 public:
  explicit ModelImpl(std::string type, std::string name = {});

  // Throws: invalid_argument, where the outputs are known, for losses and metrics of others; what was compiled before
  // then stays.
  void compile(CompileOptions options);
  const CompileOptions& compiled() const { return compiled_; }
  // Throws: failed_precondition if none is compiled.
  const optimizers::Optimizer& optimizer() const;

  // By itself builds the model's layers by calling it on zeros of these shapes.
  void build_all(const std::vector<Shape>& input_shapes) override;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override;

  // The names by which inputs and outputs are given in maps; none: only their order counts.
  virtual std::vector<std::string> input_names() const { return {}; }
  virtual std::vector<std::string> output_names() const;

  // The places of the graph that the model is, once it is built. Throws: failed_precondition for a class of its own.
  virtual std::vector<SymbolicTensor> graph_inputs() const;
  virtual std::vector<SymbolicTensor> graph_outputs() const;

  const std::vector<layers::Layer>& layers() const { return layers_; }

  virtual Summary summary() const;

  // The weights, and the optimizer's state if the model was compiled with one.
  void visit_state(StateVisitor& visitor) override;

  // One update from one replica's shard; returns its share of the global batch's loss (before the update) and metrics.
  // One of your own may have any losses, under names of its own, or none, and optimizers that are not compiled.
  virtual StepShare train_step(const Batch& shard, const GlobalBatch& global) const;
  // The same without the update.
  virtual StepShare test_step(const Batch& shard, const GlobalBatch& global) const;
  // The outputs for one replica's shard.
  virtual std::vector<Tensor> predict_step(const Batch& shard) const;

  // --- What the loops of fit, evaluate and predict are made of.
  enum class Step { train, test };

  Strategy& strategy() const { return strategy_; }
  // Builds the model for inputs like these unless it is built, and brings named inputs and labels into the model's
  // order.
  void settle(PerReplica<Batch>& shards);
  // What compile said, by output. Where layers compute in float16, the optimizer now scales the loss. Threads: any.
  // Throws: failed_precondition unless the model is built and compiled.
  std::shared_ptr<const CompiledOutputs> objectives() const;
  // Runs a step on all replicas and adds its numbers to `running`.
  void run_step(Step step, PerReplica<Batch>& shards, const std::map<int64_t, double>& class_weight,
                RunningLogs& running);
  // The same without adding them; and adding them.
  BatchShares shares_of_step(Step step, PerReplica<Batch>& shards, const std::map<int64_t, double>& class_weight);
  void add_shares(Step step, const BatchShares& shares, RunningLogs& running) const;
  // The steps themselves, of all replicas of this process, whose samples begin at `first_sample` of the global batch.
  PerReplica<StepShare> run_replicas(Step step, const PerReplica<Batch>& shards, int64_t global_size,
                                     int64_t first_sample = 0) const;
  PerReplica<std::vector<Tensor>> predict_replicas(const PerReplica<Batch>& shards) const;
  // Those that are recorded; none where the model was compiled with run_eagerly, for several processes, in a scope, and
  // on a worker whose variables lie on servers.
  std::shared_ptr<const RecordedSteps> recorded_steps() const;
  // Throws failed_precondition unless compile was called.
  void require_compiled(const char* function) const;

 protected:
  // Makes a layer one of the model's, and returns it.
  template <class L>
  L add(L layer) {
    layers_.push_back(layer);
    adopt(layer.impl());
    return layer;
  }

  // A shard's share of the loss of the global batch, and of the metrics: of the compiled losses, of what layers added,
  // and of each regularization penalty one part for each replica.
  StepShare measure(const Batch& shard, const GlobalBatch& global, const std::vector<layers::MaskedTensor>& predictions,
                    const layers::AddedLosses& added_losses) const;

  // The outputs for a shard, with masks.
  std::vector<layers::MaskedTensor> predictions(const Batch& shard, const layers::CallOptions& options) const;

  // The lines of the summary below the table of layers.
  void add_totals(Summary& summary) const;

 private:
  std::shared_ptr<const CompiledOutputs> make_objectives() const;
  void build_for(const Batch& first);
  void require_built() const;

  Strategy& strategy_;
  std::vector<layers::Layer> layers_;
  std::vector<Tensor> sample_;  // what a subclassed model is built on: one sample of the first batch
  size_t num_outputs_ = 1;
  bool is_compiled_ = false;
  mutable CompileOptions compiled_;
  mutable std::mutex making_objectives_;  // and recorded_steps_
  mutable std::shared_ptr<const RecordedSteps> recorded_steps_;
  mutable std::shared_ptr<const CompiledOutputs> objectives_;
};

}  // namespace tutti::keras
