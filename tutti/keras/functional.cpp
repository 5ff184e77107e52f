#include "tutti/keras/functional.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layer_names.h"
#include "tutti/keras/layers/core/input_layer.h"

namespace tutti::keras {
namespace {

using layers::MaskedTensor;

class FunctionalImpl : public ModelImpl {
 public:
  explicit FunctionalImpl(const FunctionalOptions& options)
      : ModelImpl("Functional", options.name), graph_inputs_(options.inputs), graph_outputs_(options.outputs) {
    if (options.inputs.empty() || options.outputs.empty()) refuse("a model needs inputs and outputs");
    for (const SymbolicTensor& input : options.inputs) add_input(input);
    for (const SymbolicTensor& output : options.outputs) {
      visit(output);
      outputs_.push_back(slots_.at(place(output)));
      output_layers_.push_back(output.node().layer);
    }
    for (const Call& call : calls_) {
      if (call.input >= 0) call.layer->build_once({call.output_shape});
      if (std::ranges::find(layers(), call.layer, &layers::Layer::impl) == layers().end())
        add(layers::Layer(call.layer));
    }
    name_uniquely(layers(), *this);
    build_once(input_shapes_);
  }

  // The layers were built when they were called.
  void build_all(const std::vector<Shape>& input_shapes) override {
    check_inputs(input_shapes.size());
    for (const layers::Layer& layer : layers()) track_layer(layer.impl());
  }

  std::vector<MaskedTensor> forward(const std::vector<MaskedTensor>& inputs,
                                    const layers::CallOptions& options) const override {
    check_inputs(inputs.size());
    std::vector<MaskedTensor> slots(num_slots_);
    std::vector<MaskedTensor> arguments;
    for (const Call& call : calls_) {
      arguments.clear();
      if (call.input >= 0) arguments.push_back(inputs[static_cast<size_t>(call.input)]);
      for (const size_t i : call.arguments) arguments.push_back(slots[i]);
      std::ranges::move(call.layer->forward(arguments, options), slots.begin() + static_cast<int64_t>(call.first_slot));
    }
    return picked(slots, outputs_);
  }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const layers::CallOptions& options) const override {
    return outputs(inputs, options);
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override {
    check_inputs(input_shapes.size());
    std::vector<Shape> slots(num_slots_);
    for (const Call& call : calls_) {
      std::vector<Shape> arguments = picked(slots, call.arguments);
      if (call.input >= 0) arguments.push_back(input_shapes[static_cast<size_t>(call.input)]);
      std::ranges::move(call.layer->compute_output_shapes(arguments),
                        slots.begin() + static_cast<int64_t>(call.first_slot));
    }
    return picked(slots, outputs_);
  }

  std::vector<SymbolicTensor> graph_inputs() const override { return graph_inputs_; }
  std::vector<SymbolicTensor> graph_outputs() const override { return graph_outputs_; }

  std::vector<std::string> input_names() const override {
    std::vector<std::string> names;
    for (size_t i = 0; i < input_shapes_.size(); ++i) names.push_back(calls_[i].layer->name());
    return names;
  }

  // A layer that gives several outputs numbers them: "lstm", "lstm_1", "lstm_2".
  std::vector<std::string> output_names() const override {
    std::vector<std::string> names;
    for (const auto& layer : output_layers_) {
      std::string name = layer->name();
      for (int number = 1; std::ranges::find(names, name) != names.end(); ++number)
        name = str(layer->name(), '_', number);
      names.push_back(name);
    }
    return names;
  }

  Summary summary() const override {
    Summary summary{.model_name = name(), .shows_connections = true};
    for (const layers::Layer& layer : layers()) {
      const auto call = std::ranges::find(calls_, layer.impl(), &Call::layer);
      SummaryRow row = summary_row(*layer.impl(), call->output_shape);
      for (const Call& other : calls_)
        if (other.layer == layer.impl())
          for (const size_t slot : other.arguments) row.connected_to.push_back(origin_of(slot));
      summary.rows.push_back(std::move(row));
    }
    add_totals(summary);
    return summary;
  }

 private:
  // One call of a layer. Its outputs lie in the slots from first_slot on.
  struct Call {
    std::shared_ptr<layers::LayerImpl> layer;
    int64_t input = -1;  // which input of the model it stands for, or none
    std::vector<size_t> arguments = {};
    size_t first_slot = 0;
    Shape output_shape = {};
  };

  // A place in the graph: a call, and which of its outputs.
  using Place = std::pair<const Node*, size_t>;
  static Place place(const SymbolicTensor& tensor) { return {&tensor.node(), tensor.output()}; }

  // "dense[1][0]": the first output of the layer's second call.
  std::string origin_of(size_t slot) const {
    const auto after = std::ranges::upper_bound(calls_, slot, {}, &Call::first_slot);
    const Call& call = *std::prev(after);
    const auto number = std::count_if(calls_.begin(), std::prev(after),
                                      [&](const Call& earlier) { return earlier.layer == call.layer; });
    return str(call.layer->name(), '[', number, "][", slot - call.first_slot, ']');
  }

  template <class T>
  static std::vector<T> picked(const std::vector<T>& slots, const std::vector<size_t>& indices) {
    std::vector<T> values;
    values.reserve(indices.size());
    for (const size_t i : indices) values.push_back(slots[i]);
    return values;
  }

  void check_inputs(size_t num_inputs) const {
    if (num_inputs != input_shapes_.size()) refuse(str("takes ", input_shapes_.size(), " inputs, not ", num_inputs));
  }

  // What Input returned, or any other place: there the graph is cut, and an InputLayer stands in for what gives it.
  void add_input(const SymbolicTensor& input) {
    std::shared_ptr<layers::LayerImpl> layer = input.node().layer;
    if (slots_.contains(place(input))) refuse(str("the input ", layer->name(), " is listed twice"));
    if (!input.node().inputs.empty()) {
      const Shape& shape = input.shape();
      const std::string number = input.output() == 0 ? "" : str('_', input.output());
      layer = layers::InputLayer({.shape = {shape.begin() + 1, shape.end()},
                                  .batch = shape[0],
                                  .name = str(layer->name(), "_output", number)})
                  .impl();
    }
    append({.layer = layer, .input = static_cast<int64_t>(input_shapes_.size()), .output_shape = input.shape()}, 1);
    slots_[place(input)] = calls_.back().first_slot;
    input_shapes_.push_back(input.shape());
  }

  void append(Call call, size_t num_outputs) {
    call.first_slot = num_slots_;
    num_slots_ += num_outputs;
    calls_.push_back(std::move(call));
  }

  void append_call_of(const Node& node) {
    if (node.inputs.empty())
      refuse(str("an output depends on the input ", node.layer->name(), ", which is not listed"));
    Call call{.layer = node.layer, .output_shape = node.output_shapes[0]};
    for (const SymbolicTensor& input : node.inputs) call.arguments.push_back(slots_.at(place(input)));
    append(std::move(call), node.output_shapes.size());
    for (size_t i = 0; i < node.output_shapes.size(); ++i)  // where the graph is cut the input stays
      slots_.emplace(Place(&node, i), calls_.back().first_slot + i);
  }

  // Lists the calls that `last` needs: depth first, without recursion, as graphs may be deep.
  void visit(const SymbolicTensor& last) {
    std::vector<SymbolicTensor> open{last};
    while (!open.empty()) {
      const SymbolicTensor tensor = open.back();
      const auto missing = std::ranges::find_if(
          tensor.node().inputs, [&](const SymbolicTensor& input) { return !slots_.contains(place(input)); });
      if (slots_.contains(place(tensor))) {
        open.pop_back();
      } else if (missing != tensor.node().inputs.end()) {
        open.push_back(*missing);
      } else {
        append_call_of(tensor.node());
        open.pop_back();
      }
    }
  }

  std::vector<SymbolicTensor> graph_inputs_, graph_outputs_;  // keep the nodes
  std::vector<Call> calls_;  // the inputs first, then each after those whose outputs it needs
  std::map<Place, size_t> slots_;
  size_t num_slots_ = 0;
  std::vector<Shape> input_shapes_;
  std::vector<size_t> outputs_;
  std::vector<std::shared_ptr<layers::LayerImpl>> output_layers_;
};

}  // namespace

std::shared_ptr<ModelImpl> make_functional(const FunctionalOptions& options) {
  return std::make_shared<FunctionalImpl>(options);
}

}  // namespace tutti::keras
