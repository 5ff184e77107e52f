#include "tutti/keras/layers/recurrent/rnn_cell.h"

#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layer_names.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/recurrent_internal.h"
#include "tutti/keras/layers/recurrent/simple_rnn.h"

namespace tutti::keras::layers {
namespace {

// A recurrent layer on sequences of one step. Its weights are the cell's.
class StepOfLayer final : public RNNCellImpl {
 public:
  template <class Options>
  StepOfLayer(std::string type, const Options& options, const Layer& layer)
      : RNNCellImpl(std::move(type), options.name, layer.module()),
        layer_(std::static_pointer_cast<RecurrentImpl>(layer.impl())),
        units_(options.units),
        dropout_(options.dropout),
        recurrent_dropout_(options.recurrent_dropout) {
    for (const double rate : {dropout_, recurrent_dropout_}) check_dropout_rate(*this, rate);
    adopt(layer_);
  }

  std::vector<int64_t> state_sizes() const override { return std::vector<int64_t>(layer_->num_states(), units_); }

  size_t num_drawn() const override { return (dropout_ > 0) + (recurrent_dropout_ > 0); }
  std::vector<Tensor> draw(const Shape& x, const at::TensorOptions& options) const override {
    std::vector<Tensor> masks;
    if (dropout_ > 0) masks.push_back(dropout_mask(x, options, dropout_));
    if (recurrent_dropout_ > 0) masks.push_back(dropout_mask({x[0], units_}, options, recurrent_dropout_));
    return masks;
  }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    const auto behind_states = inputs.begin() + 1 + static_cast<std::ptrdiff_t>(layer_->num_states());
    std::vector<Tensor> sequence(inputs.begin(), behind_states), masks(behind_states, inputs.end());
    if (options.training) {
      if (masks.empty()) masks = draw(inputs[0].sizes().vec(), inputs[0].options().requires_grad(false));
      if (dropout_ > 0) sequence[0] = sequence[0] * masks.front();
      if (recurrent_dropout_ > 0) sequence[1] = sequence[1] * masks.back();
    }
    sequence[0] = sequence[0].unsqueeze(1);
    return layer_->outputs(sequence, {.training = options.training, .added_losses = options.added_losses});
  }

 protected:
  void build(const Shape& x) override {
    Shape sequence = x;
    sequence.insert(sequence.begin() + 1, 1);
    layer_->build_once({sequence});
    for (const Weight& weight : layer_->weights()) track(weight);
  }

 private:
  std::shared_ptr<RecurrentImpl> layer_;
  int64_t units_;
  double dropout_, recurrent_dropout_;
};

class StackedCells final : public RNNCellImpl {
 public:
  StackedCells(const std::vector<RNNCell>& cells, std::string name)
      : RNNCellImpl("StackedRNNCells", std::move(name)), cells_(cells) {
    if (cells.empty()) refuse("it has no cell");
    name_uniquely({cells.begin(), cells.end()}, *this);
    for (const RNNCell& cell : cells_) adopt(cell.impl());
  }

  std::vector<int64_t> state_sizes() const override {
    std::vector<int64_t> sizes;
    for (const RNNCell& cell : cells_) std::ranges::copy(cell.cell().state_sizes(), std::back_inserter(sizes));
    return sizes;
  }
  int64_t output_size() const override { return cells_.back().cell().output_size(); }

  size_t num_drawn() const override {
    size_t count = 0;
    for (const RNNCell& cell : cells_) count += cell.cell().num_drawn();
    return count;
  }
  std::vector<Tensor> draw(const Shape& x, const at::TensorOptions& options) const override {
    std::vector<Tensor> drawn;
    Shape shape = x;
    for (const RNNCell& cell : cells_) {
      std::ranges::move(cell.cell().draw(shape, options), std::back_inserter(drawn));
      shape = cell.cell().output_shape(shape);
    }
    return drawn;
  }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    std::vector<Tensor> result{inputs[0]};
    auto states = inputs.begin() + 1, drawn = states + static_cast<std::ptrdiff_t>(state_sizes().size());
    for (const RNNCell& cell : cells_) {
      std::vector<Tensor> arguments{result[0]};
      const auto take = [&](auto& from, size_t count) {
        const auto end = from + static_cast<std::ptrdiff_t>(count);
        arguments.insert(arguments.end(), from, end);
        from = end;
      };
      take(states, cell.cell().state_sizes().size());
      if (drawn != inputs.end()) take(drawn, cell.cell().num_drawn());
      const std::vector<Tensor> outputs = cell.impl()->outputs(arguments, options);
      result[0] = outputs[0];
      result.insert(result.end(), outputs.begin() + 1, outputs.end());
    }
    return result;
  }

 protected:
  void build(const Shape& x) override {
    Shape shape = x;
    for (const RNNCell& cell : cells_) {
      cell.build(shape);
      shape = cell.cell().output_shape(shape);
      track_layer(cell.impl());
    }
  }

 private:
  std::vector<RNNCell> cells_;
};

// The options of the layer whose step the cell is.
template <class LayerOptions, class CellOptions>
LayerOptions layer_options(const CellOptions& cell) {
  LayerOptions options{.units = cell.units, .activation = cell.activation, .use_bias = cell.use_bias};
  options.kernel_initializer = cell.kernel_initializer;
  options.recurrent_initializer = cell.recurrent_initializer;
  options.bias_initializer = cell.bias_initializer;
  options.kernel_regularizer = cell.kernel_regularizer;
  options.recurrent_regularizer = cell.recurrent_regularizer;
  options.bias_regularizer = cell.bias_regularizer;
  options.return_state = true;
  return options;
}

GRU layer_of(const GRUCellOptions& cell) {
  auto options = layer_options<GRUOptions>(cell);
  options.recurrent_activation = cell.recurrent_activation;
  options.reset_after = cell.reset_after;
  return GRU(options);
}

LSTM layer_of(const LSTMCellOptions& cell) {
  auto options = layer_options<LSTMOptions>(cell);
  options.recurrent_activation = cell.recurrent_activation;
  options.unit_forget_bias = cell.unit_forget_bias;
  return LSTM(options);
}

}  // namespace

std::vector<Shape> RNNCellImpl::state_shapes(const Shape& x) const {
  std::vector<Shape> shapes;
  for (const int64_t size : state_sizes()) shapes.push_back({x[0], size});
  return shapes;
}

std::vector<Shape> RNNCellImpl::compute_output_shapes(const std::vector<Shape>& input_shapes) const {
  std::vector<Shape> shapes = state_shapes(input_shapes.at(0));
  if (input_shapes.size() != 1 + shapes.size())
    refuse(tutti::str("takes x and ", shapes.size(), " states, not ", input_shapes.size(), " inputs"));
  shapes.insert(shapes.begin(), output_shape(input_shapes[0]));
  return shapes;
}

SimpleRNNCell::SimpleRNNCell(const SimpleRNNCellOptions& options)
    : RNNCell(
          std::make_shared<StepOfLayer>("SimpleRNNCell", options, SimpleRNN(layer_options<SimpleRNNOptions>(options))),
          options) {}

GRUCell::GRUCell(const GRUCellOptions& options)
    : RNNCell(std::make_shared<StepOfLayer>("GRUCell", options, layer_of(options)), options) {}

LSTMCell::LSTMCell(const LSTMCellOptions& options)
    : RNNCell(std::make_shared<StepOfLayer>("LSTMCell", options, layer_of(options)), options) {}

StackedRNNCells::StackedRNNCells(const std::vector<RNNCell>& cells, const StackedRNNCellsOptions& options)
    : RNNCell(std::make_shared<StackedCells>(cells, options.name), options) {}

}  // namespace tutti::keras::layers
