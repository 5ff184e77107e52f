#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

// What stands behind a cell, one step of a sequence; derive from it to write one. It overrides state_sizes, build for x
// [batch, ...], and call_all: its inputs are x and the states, its outputs what the step gives and the states after it.
class RNNCellImpl : public LayerImpl {
 public:
  using LayerImpl::LayerImpl;

  // Each state is [batch, size].
  virtual std::vector<int64_t> state_sizes() const = 0;
  // What a step gives is [batch, size].
  virtual int64_t output_size() const { return state_sizes()[0]; }
  // The same for a cell whose states are more than vectors: their shapes for x of a step, and that of what it gives.
  virtual std::vector<Shape> state_shapes(const Shape& x) const;
  virtual Shape output_shape(const Shape& x) const { return {x[0], output_size()}; }

  // What is drawn once for all steps of a sequence in training, num_drawn tensors, such as the masks of a dropout:
  // call_all finds them behind the states, or draws for itself where the cell is called alone.
  virtual size_t num_drawn() const { return 0; }
  virtual std::vector<Tensor> draw(const Shape&, const at::TensorOptions&) const { return {}; }

  void build_all(const std::vector<Shape>& input_shapes) override { build(input_shapes.at(0)); }
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override;
  InputCast input_cast() const override { return InputCast::numbers; }

 protected:
  void build(const Shape&) override {}
};

// A handle to a cell. Called on {x, states...}, outputs() gives {output, states...}.
class RNNCell : public Layer {
 public:
  explicit RNNCell(std::shared_ptr<RNNCellImpl> impl) : Layer(std::move(impl)) {}
  RNNCellImpl& cell() const { return static_cast<RNNCellImpl&>(*impl()); }

 protected:
  template <class Options>
  RNNCell(std::shared_ptr<RNNCellImpl> impl, const Options& options) : Layer(std::move(impl), options) {}
};

struct SimpleRNNCellOptions {
  int64_t units = 0;  // required
  activations::Activation activation = activations::tanh;
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer recurrent_initializer = initializers::Orthogonal();
  initializers::Initializer bias_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> recurrent_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  double dropout = 0;            // of the input, in training: the same features in all steps of a sequence
  double recurrent_dropout = 0;  // of what a step sees of the one before
  std::string name = {};
};
// A step of SimpleRNN, with its weights. TF: tf.keras.layers.SimpleRNNCell
class SimpleRNNCell : public RNNCell {
 public:
  explicit SimpleRNNCell(const SimpleRNNCellOptions& options);
};

struct GRUCellOptions {
  int64_t units = 0;  // required
  activations::Activation activation = activations::tanh;
  activations::Activation recurrent_activation = activations::sigmoid;
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer recurrent_initializer = initializers::Orthogonal();
  initializers::Initializer bias_initializer = initializers::Zeros();
  bool reset_after = true;
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> recurrent_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  double dropout = 0;            // of the input, in training: the same features in all steps of a sequence
  double recurrent_dropout = 0;  // of what a step sees of the one before
  std::string name = {};
};
// A step of GRU, with its weights. TF: tf.keras.layers.GRUCell
class GRUCell : public RNNCell {
 public:
  explicit GRUCell(const GRUCellOptions& options);
};

struct LSTMCellOptions {
  int64_t units = 0;  // required
  activations::Activation activation = activations::tanh;
  activations::Activation recurrent_activation = activations::sigmoid;
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer recurrent_initializer = initializers::Orthogonal();
  initializers::Initializer bias_initializer = initializers::Zeros();
  bool unit_forget_bias = true;
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> recurrent_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  double dropout = 0;            // of the input, in training: the same features in all steps of a sequence
  double recurrent_dropout = 0;  // of what a step sees of the one before
  std::string name = {};
};
// A step of LSTM, with its weights. TF: tf.keras.layers.LSTMCell
class LSTMCell : public RNNCell {
 public:
  explicit LSTMCell(const LSTMCellOptions& options);
};

struct StackedRNNCellsOptions {
  std::string name = {};
};
// Several cells as one: each takes what the one before gives. The states are those of the first cell, then those of the
// second, and so on. Throws: invalid_argument for none. TF: tf.keras.layers.StackedRNNCells
class StackedRNNCells : public RNNCell {
 public:
  explicit StackedRNNCells(const std::vector<RNNCell>& cells, const StackedRNNCellsOptions& options = {});
};

}  // namespace tutti::keras::layers
