#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "tutti/keras/fit_options.h"
#include "tutti/keras/functional.h"
#include "tutti/keras/history.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/model_impl.h"
#include "tutti/keras/saving/save_model_options.h"

namespace tutti::keras {

// A layer that can be trained: a shared handle. It trains on all replicas of the strategy in whose scope it was made,
// which must outlive it. What fit and evaluate report is exact: a loss is the mean over the
// global batch, whatever its size and the number of replicas, plus the regularization penalties; an epoch's numbers are
// means over its samples. TF: tf.keras.Model
class Model : public layers::Layer {
 public:
  explicit Model(std::shared_ptr<ModelImpl> impl);
  // A graph of layers: Model({.inputs = {x}, .outputs = {dense(x)}}).
  explicit Model(const FunctionalOptions& options) : Model(make_functional(options)) {}

  void compile(const CompileOptions& options) const;

  // Trains for options.epochs passes over the batches. The first batch builds the model. Several inputs or outputs are
  // lists of tensors, or maps by their names.
  // Throws: failed_precondition before compile; invalid_argument for an empty dataset, and as the layers and the loss.
  History fit(const Batches& batches, const FitOptions& options = {}) const;
  History fit(const Tensors& x, const Tensors& y, const FitOptions& options = {}) const;

  // Returns "loss" and each metric by name, without training.
  Logs evaluate(const Batches& batches, const EvaluateOptions& options = {}) const;
  Logs evaluate(const Tensors& x, const Tensors& y, const EvaluateOptions& options = {}) const;

  // Returns the output for all samples, [N, ...]; of a model of several outputs, all of them.
  Tensor predict(const Batches& batches, const PredictOptions& options = {}) const;
  Tensor predict(const Tensors& x, const PredictOptions& options = {}) const;
  std::vector<Tensor> predict_outputs(const Batches& batches, const PredictOptions& options = {}) const;
  std::vector<Tensor> predict_outputs(const Tensors& x, const PredictOptions& options = {}) const;

  // One update from one global batch, or one look at it; return the loss (before the update) and the metrics of it.
  Logs train_on_batch(const Batch& batch) const;
  Logs test_on_batch(const Batch& batch) const;
  std::vector<Tensor> predict_on_batch(const Tensors& x) const;

  // The weights in a file, as its ending says: .safetensors or .npz, see tutti::save_weights and load_weights, or
  // .weights.h5, which Python's Keras 3 writes and reads, for sequential and functional models of its layers; in models
  // that are classes a layer's name is that of Python's attribute. Of Keras's files the optimizer's state is
  // left out. Files of Keras 2, .h5 of any name, are read too, by the order of their layers. Loading throws
  // failed_precondition, before anything is changed, unless the file has every weight and no other.
  void save_weights(const std::filesystem::path& file) const;
  void load_weights(const std::filesystem::path& file) const;

  // The whole model in a file NAME.keras, as Python's Keras 3 writes it: keras.saving.load_model there, and load_model
  // here, make a model of it that predicts the same. Sequential and functional models of Keras's layers, in each other
  // too, and layers of your own that `options` has a function for. It has the weights, whole ones, what compile said
  // and the optimizer's state, so that training goes on. Throws, before any file is touched: unimplemented, by the
  // layer's name, for what Python lacks: other classes, functions of this program (a Lambda, an activation, an
  // initializer, a loss), a layer that is in two of its models; failed_precondition before the model is built;
  // invalid_argument for another ending. Keras: Model.save
  void save(const std::filesystem::path& file, const SaveModelOptions& options = {}) const;

  // Its layers, in their order, and the one of a name. Throws: invalid_argument if there is none.
  const std::vector<layers::Layer>& layers() const;
  layers::Layer get_layer(const std::string& name) const;
  layers::Layer get_layer(size_t index) const;

  // Where the inputs and outputs are in the graph of a functional model, or a sequential one that is built; with a
  // layer's output() the ends of models that are cut out of this one. Throws: failed_precondition for other models.
  std::vector<SymbolicTensor> inputs() const;
  std::vector<SymbolicTensor> outputs() const;
  using Layer::outputs;

  // Writes the table of layers with output shapes and parameters.
  void summary(std::ostream& out) const;

  ModelImpl& model() const;
};

}  // namespace tutti::keras
