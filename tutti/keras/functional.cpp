#include "tutti/keras/functional.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layer_names.h"

namespace tutti::keras {
namespace {

using layers::MaskedTensor;

class FunctionalImpl : public ModelImpl {
 public:
  explicit FunctionalImpl(const FunctionalOptions& options)
      : ModelImpl("Functional", options.name), graph_(options.outputs) {
    if (options.inputs.empty() || options.outputs.empty()) refuse("a model needs inputs and outputs");
    for (const SymbolicTensor& input : options.inputs) add_input(input);
    for (const SymbolicTensor& output : options.outputs) {
      visit(output.node());
      outputs_.push_back(slot(output));
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
          for (const auto& [node, output] : other.from)
            row.connected_to.push_back(str(node->layer->name(), '[', number_of_call(*node), "][", output, ']'));
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
    std::vector<std::pair<const Node*, size_t>> from = {};  // whose outputs the arguments are
  };

  // How many calls of its layer come before that of `node`.
  size_t number_of_call(const Node& node) const {
    const size_t slot = first_slots_.at(&node);
    return static_cast<size_t>(std::ranges::count_if(
        calls_, [&](const Call& call) { return call.layer == node.layer && call.first_slot < slot; }));
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

  void add_input(const SymbolicTensor& input) {
    if (input.node().layer->type() != "InputLayer")
      refuse(str("an input is the output of ", input.node().layer->name(), "; it must be what Input returned"));
    if (first_slots_.contains(&input.node())) refuse(str("the input ", input.node().layer->name(), " is listed twice"));
    append(input.node(), {.layer = input.node().layer, .input = static_cast<int64_t>(input_shapes_.size())});
    input_shapes_.push_back(input.shape());
  }

  size_t slot(const SymbolicTensor& tensor) const { return first_slots_.at(&tensor.node()) + tensor.output(); }

  void append(const Node& node, Call call) {
    call.first_slot = num_slots_;
    call.output_shape = node.output_shapes[0];
    first_slots_[&node] = num_slots_;
    num_slots_ += node.output_shapes.size();
    calls_.push_back(std::move(call));
  }

  // Lists the calls that `node` needs, then its own: depth first, without recursion, as graphs may be deep.
  void visit(const Node& last) {
    std::vector<const Node*> open{&last};
    while (!open.empty()) {
      const Node& node = *open.back();
      const auto missing = std::ranges::find_if(
          node.inputs, [&](const SymbolicTensor& input) { return !first_slots_.contains(&input.node()); });
      if (first_slots_.contains(&node)) {
        open.pop_back();
      } else if (missing != node.inputs.end()) {
        open.push_back(&missing->node());
      } else {
        if (node.inputs.empty())
          refuse(str("an output depends on the input ", node.layer->name(), ", which is not listed"));
        Call call{.layer = node.layer};
        for (const SymbolicTensor& input : node.inputs) {
          call.arguments.push_back(slot(input));
          call.from.emplace_back(&input.node(), input.output());
        }
        append(node, std::move(call));
        open.pop_back();
      }
    }
  }

  std::vector<SymbolicTensor> graph_;  // keeps the nodes
  std::vector<Call> calls_;            // the inputs first, then each after those whose outputs it needs
  std::map<const Node*, size_t> first_slots_;
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
