#pragma once

#include <functional>
#include <map>
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

  void compile(CompileOptions options);
  const CompileOptions& compiled() const { return compiled_; }

  // By itself builds the model's layers by calling it on zeros of these shapes.
  void build_all(const std::vector<Shape>& input_shapes) override;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override;

  // The names by which inputs and outputs are given in maps; none: only their order counts.
  virtual std::vector<std::string> input_names() const { return {}; }
  virtual std::vector<std::string> output_names() const;

  virtual Summary summary() const;

  // The weights, and the optimizer's state if the model was compiled with one.
  void visit_state(StateVisitor& visitor) override;

  // One update from one replica's shard; returns its share of the global batch's loss (before the update) and metrics.
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
  // What compile said, by output; the model is built. Where layers compute in float16, the optimizer now scales the
  // loss.
  const CompiledOutputs& objectives();
  // Runs a step on all replicas and adds its numbers to `running`; then the weights' constraints hold again.
  void run_step(Step step, PerReplica<Batch>& shards, const std::map<int64_t, double>& class_weight,
                RunningLogs& running);
  // Throws failed_precondition unless there are a loss and, if asked for, an optimizer.
  void require_compiled(const char* function, bool with_optimizer) const;

 protected:
  // Makes a layer one of the model's, and returns it.
  template <class L>
  L add(L layer) {
    layers_.push_back(layer);
    return layer;
  }
  const std::vector<layers::Layer>& layers() const { return layers_; }

  // A shard's share of the loss of the global batch, and of the metrics: of the compiled losses, of what layers added,
  // and of each regularization penalty one part for each replica.
  StepShare measure(const Batch& shard, const GlobalBatch& global, const std::vector<layers::MaskedTensor>& predictions,
                    const layers::AddedLosses& added_losses) const;

  // The outputs for a shard, with masks.
  std::vector<layers::MaskedTensor> predictions(const Batch& shard, const layers::CallOptions& options) const;

  // The lines of the summary below the table of layers.
  void add_totals(Summary& summary) const;

 private:
  void constrain_weights() const;

  Strategy& strategy_;
  std::vector<layers::Layer> layers_;
  std::vector<Tensor> sample_;  // what a subclassed model is built on: one sample of the first batch
  size_t num_outputs_ = 1;
  CompileOptions compiled_;
  std::optional<CompiledOutputs> objectives_;
};

}  // namespace tutti::keras
