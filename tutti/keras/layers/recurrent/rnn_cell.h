#pragma once

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
