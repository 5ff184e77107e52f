#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tutti/keras/fit_options.h"
#include "tutti/keras/history.h"
#include "tutti/keras/layers/layer_impl.h"
#include "tutti/keras/running_logs.h"
#include "tutti/keras/summary.h"

namespace tutti::keras {

// The batch that a shard is cut from.
struct GlobalBatch {
  int64_t size = 0;
  int64_t num_replicas = 1;
};

// What stands behind a Model; derive from it to write one. It trains under the strategy in whose scope it was made,
// which must outlive it. The steps are const because all replicas run them at once, each on its own shard.
class ModelImpl : public layers::LayerImpl {
 public:
  ModelImpl(std::string type, std::string name);

  void compile(CompileOptions options) { compiled_ = std::move(options); }

  History fit(const Batches& batches, const FitOptions& options);
  Logs evaluate(const Batches& batches, Verbose verbose);
  Tensor predict(const Batches& batches);

  virtual Summary summary() const = 0;

  // The weights, and the optimizer's state if the model was compiled with one.
  void visit_state(StateVisitor& visitor) override;

  // One update from one replica's shard; returns its share of the global batch's loss (before the update) and metrics.
  virtual StepShare train_step(const Batch& shard, const GlobalBatch& global) const;

  // The same without the update.
  virtual StepShare test_step(const Batch& shard, const GlobalBatch& global) const;

 protected:
  // The shard's share of the loss of the global batch: the compiled loss's share, and of each regularization penalty
  // one part for each replica.
  Tensor compute_loss(const Batch& shard, const Tensor& predictions, const GlobalBatch& global) const;

  const CompileOptions& compiled() const { return compiled_; }

  // The lines of the summary below the table of layers.
  void add_totals(Summary& summary) const;

 private:
  using Step = StepShare (ModelImpl::*)(const Batch& shard, const GlobalBatch& global) const;

  // Runs `step` on all replicas for every batch of one pass; returns the number of steps.
  int64_t run_pass(const Batches& batches, Step step, RunningLogs& running,
                   const std::map<int64_t, double>& class_weight = {});

  void build_for(const PerReplica<Batch>& shards);
  std::vector<Tensor> metric_contributions(const Batch& shard, const Tensor& predictions) const;
  void require_compiled(const char* function, bool with_optimizer) const;

  Strategy& strategy_;
  CompileOptions compiled_;
};

}  // namespace tutti::keras
