#pragma once

#include <iosfwd>
#include <memory>

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/model_impl.h"

namespace tutti::keras {

// A layer that can be trained: a shared handle. It trains on all replicas of the strategy in whose scope it was made,
// which must outlive it. What fit and evaluate report is exact: a loss is the mean over the
// global batch, whatever its size and the number of replicas, plus the regularization penalties; an epoch's numbers are
// means over its samples. TF: tf.keras.Model
class Model : public layers::Layer {
 public:
  explicit Model(std::shared_ptr<ModelImpl> impl);

  void compile(const CompileOptions& options) const;

  // Trains for options.epochs passes over the batches. The first batch builds the model.
  // Throws: failed_precondition before compile; invalid_argument for an empty dataset, and as the layers and the loss.
  History fit(const Batches& batches, const FitOptions& options = {}) const;
  History fit(const Tensor& x, const Tensor& y, const FitOptions& options = {}) const;

  // Returns "loss" and each metric by name, without training.
  Logs evaluate(const Batches& batches, const EvaluateOptions& options = {}) const;
  Logs evaluate(const Tensor& x, const Tensor& y, const EvaluateOptions& options = {}) const;

  // Returns the outputs for all samples, [N, ...].
  Tensor predict(const Batches& batches) const;
  Tensor predict(const Tensor& x, const PredictOptions& options = {}) const;

  // Writes the table of layers with output shapes and parameters.
  void summary(std::ostream& out) const;

 private:
  ModelImpl& model() const;
};

}  // namespace tutti::keras
