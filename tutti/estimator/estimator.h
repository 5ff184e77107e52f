#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tutti/data/dataset.h"
#include "tutti/estimator/hooks.h"
#include "tutti/estimator/model_fn.h"
#include "tutti/estimator/model_run.h"
#include "tutti/estimator/serving_input_receiver.h"
#include "tutti/estimator/warm_start.h"
#include "tutti/export/saved_model.h"

namespace tutti::estimator {

struct EstimatorOptions {
  std::string model_dir = {};  // empty: the config's, or a new folder of the system's temporary ones
  RunConfig config = RunConfig();
  Params params = {};
  std::optional<WarmStartSettings> warm_start_from = {};  // where model_dir has no checkpoint yet
};

struct TrainOptions {
  Hooks hooks = {};
  std::optional<int64_t> steps = {};      // more
  std::optional<int64_t> max_steps = {};  // in all; at most one of the two. None: to the end of the input
  Listeners saving_listeners = {};
};

struct EvaluateOptions {
  std::optional<int64_t> steps = {};  // none: to the end of the input
  Hooks hooks = {};
  std::filesystem::path checkpoint_path = {};  // empty: the newest
  std::string name = {};                       // of one among several evaluations: its numbers go to eval_NAME
};

struct PredictOptions {
  std::vector<std::string> predict_keys = {};  // empty: all
  Hooks hooks = {};
  std::filesystem::path checkpoint_path = {};
  bool yield_single_examples = true;  // else batches
};

struct ExportOptions {
  std::filesystem::path checkpoint_path = {};  // empty: the newest
  bool torchscript = false;                    // a file NAME.pt for each signature; not where text comes out
  // A file NAME.onnx for each signature; not where text comes out, as classes of heads do. Not in TF.
  std::optional<saved_model::OnnxOptions> onnx = {};
  bool pt2 = false;  // a file NAME.pt2 for each signature; not where text comes out. Not in TF
};

class MetricFn;

// By name: "loss", "global_step", and the model's metrics.
using Metrics = std::map<std::string, double>;

// A model that trains, evaluates and predicts by itself, and keeps what it learnt in a folder. The model function
// describes it: layers that are made in it find their weights by name. It is called once before the first batch, with
// its data, to make them; then its computation is repeated, or, where that cannot be recorded, it is called anew. A
// shared handle. One thread at a time. TF: tf.estimator.Estimator.
//
// Under a strategy each replica takes a batch of its own in each step, and the loss is what LossScaling says. A
// training that was killed goes on from the newest checkpoint, bit for bit: at its place in the input, and with its
// random numbers.
class Estimator {
 public:
  // Throws: invalid_argument for two model_dirs, or params that the model function does not take.
  explicit Estimator(ModelFn model_fn, EstimatorOptions options = {});

  // Throws: invalid_argument for steps and max_steps together, or below 1, and for what the model function returns;
  // failed_precondition for a model_dir of another model, or to which another training saves, a loss that is not a
  // number, and in a replica; what the functions throw.
  const Estimator& train(const InputFn& input_fn, const TrainOptions& options = {}) const;
  // The mean of the loss over batches and the metrics over rows, all batches counted.
  Metrics evaluate(const InputFn& input_fn, const EvaluateOptions& options = {}) const;
  // A dataset of what is predicted for each example, in order; computed while it is iterated.
  data::Dataset<data::Columns> predict(const InputFn& input_fn, const PredictOptions& options = {}) const;
  // Saves the model for serving (saved_model::load), as a new folder below export_dir_base that is named by the seconds
  // since 1970; returns it. A signature for each of the spec's export_outputs, which take what the receiver says; of
  // receivers other than of serialized Examples only those of PredictOutput.
  // Throws: not_found before the first checkpoint; invalid_argument where there is nothing to serve; as
  // saved_model::save for a model that cannot be saved.
  std::filesystem::path export_saved_model(const std::filesystem::path& export_dir_base,
                                           const ServingInputReceiverFn& serving_input_receiver_fn,
                                           const ExportOptions& options = {}) const;

  std::optional<std::filesystem::path> latest_checkpoint() const;
  // Of the newest checkpoint: variables, slots of optimizers, "global_step". Throw: not_found before the first, and for
  // another name.
  std::vector<std::string> get_variable_names() const;
  Tensor get_variable_value(const std::string& name) const;

  const std::filesystem::path& model_dir() const;
  // Where the event files of an evaluation of this name are.
  std::filesystem::path eval_dir(const std::string& name = {}) const;
  const RunConfig& config() const;
  const Params& params() const;

 private:
  friend Estimator add_metrics(const Estimator& estimator, MetricFn metric_fn);

  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace tutti::estimator
