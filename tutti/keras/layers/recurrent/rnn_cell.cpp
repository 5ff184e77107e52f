#include "tutti/keras/layers/recurrent/rnn_cell.h"

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
  StepOfLayer(std::string type, std::string name, const Layer& layer, int64_t units)
      : RNNCellImpl(std::move(type), std::move(name), layer.module()),
        layer_(std::static_pointer_cast<RecurrentImpl>(layer.impl())),
        units_(units) {
    adopt(layer_);
  }

  std::vector<int64_t> state_sizes() const override { return std::vector<int64_t>(layer_->num_states(), units_); }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    std::vector<Tensor> sequence = inputs;
    sequence[0] = inputs[0].unsqueeze(1);
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

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    std::vector<Tensor> result{inputs[0]};
    auto states = inputs.begin() + 1;
    for (const RNNCell& cell : cells_) {
      const auto own = static_cast<std::ptrdiff_t>(cell.cell().state_sizes().size());
      std::vector<Tensor> arguments{result[0]};
      arguments.insert(arguments.end(), states, states + own);
      states += own;
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
      shape = {x[0], cell.cell().output_size()};
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

std::vector<Shape> RNNCellImpl::compute_output_shapes(const std::vector<Shape>& input_shapes) const {
  const std::vector<int64_t> sizes = state_sizes();
  if (input_shapes.size() != 1 + sizes.size())
    refuse(tutti::str("takes x and ", sizes.size(), " states, not ", input_shapes.size(), " inputs"));
  std::vector<Shape> shapes{{input_shapes[0][0], output_size()}};
  for (const int64_t size : sizes) shapes.push_back({input_shapes[0][0], size});
  return shapes;
}

SimpleRNNCell::SimpleRNNCell(const SimpleRNNCellOptions& options)
    : RNNCell(std::make_shared<StepOfLayer>("SimpleRNNCell", options.name,
                                            SimpleRNN(layer_options<SimpleRNNOptions>(options)), options.units)) {}

GRUCell::GRUCell(const GRUCellOptions& options)
    : RNNCell(std::make_shared<StepOfLayer>("GRUCell", options.name, layer_of(options), options.units)) {}

LSTMCell::LSTMCell(const LSTMCellOptions& options)
    : RNNCell(std::make_shared<StepOfLayer>("LSTMCell", options.name, layer_of(options), options.units)) {}

StackedRNNCells::StackedRNNCells(const std::vector<RNNCell>& cells, const StackedRNNCellsOptions& options)
    : RNNCell(std::make_shared<StackedCells>(cells, options.name)) {}

}  // namespace tutti::keras::layers
