#include "tutti/keras/sequential.h"

#include <set>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layer_names.h"
#include "tutti/keras/layers/core/input_layer.h"

namespace tutti::keras {
namespace {

class SequentialImpl : public ModelImpl {
 public:
  SequentialImpl(std::vector<layers::Layer> layers, std::string name) : ModelImpl("Sequential", std::move(name)) {
    std::set<const layers::LayerImpl*> seen;
    for (const layers::Layer& layer : layers) {
      if (!seen.insert(layer.impl().get()).second)
        refuse(str("the layer ", layer.name(), " is there twice; Model({.inputs = …, .outputs = …}) can share layers"));
      add(layer);
    }
    name_uniquely(this->layers(), *this);
    if (!layers.empty() && layers[0].impl()->type() == "InputLayer") build_once({layers[0].compute_output_shape({})});
  }

  void build_all(const std::vector<Shape>& input_shapes) override {
    if (input_shapes.size() != 1) refuse(str("takes one input, not ", input_shapes.size()));
    Shape shape = input_shapes[0];
    if (!shape.empty()) shape[0] = kUnknown;
    graph_.clear();
    graph_.push_back(input_place(shape));
    for (const layers::Layer& layer : layers()) {
      try {
        layer.build(shape);
        shape = layer.compute_output_shape(shape);
      } catch (const Error& error) {
        throw Error(error.code(), str(error.what(), origin_of_input()), error.location());
      }
      if (layer.impl()->type() == "InputLayer") {
        graph_.push_back(graph_.back());
      } else {
        graph_.push_back(call_in_graph(layer.impl(), {graph_.back()}, {shape})[0]);
      }
      track_layer(layer.impl());
    }
  }

  std::vector<SymbolicTensor> graph_inputs() const override {
    return built() ? std::vector{graph_.front()} : ModelImpl::graph_inputs();
  }
  std::vector<SymbolicTensor> graph_outputs() const override {
    return built() ? std::vector{graph_.back()} : ModelImpl::graph_outputs();
  }

  std::vector<layers::MaskedTensor> forward(const std::vector<layers::MaskedTensor>& inputs,
                                            const layers::CallOptions& options) const override {
    std::vector<layers::MaskedTensor> values = inputs;
    for (const layers::Layer& layer : layers()) values = layer.impl()->forward(values, options);
    return values;
  }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const layers::CallOptions& options) const override {
    return outputs(inputs, options);
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override {
    std::vector<Shape> shapes = input_shapes;
    for (const layers::Layer& layer : layers()) shapes = layer.impl()->compute_output_shapes(shapes);
    return shapes;
  }

  Summary summary() const override {
    Summary summary{.model_name = name()};
    for (size_t i = 0; i < layers().size(); ++i)
      if (const layers::LayerImpl& layer = *layers()[i].impl(); layer.type() != "InputLayer")
        summary.rows.push_back(summary_row(layer, built() ? std::optional(graph_[i + 1].shape()) : std::nullopt));
    add_totals(summary);
    return summary;
  }

 private:
  // For the error of the layer that is being built.
  std::string origin_of_input() const {
    if (graph_.size() == 1) return " (the model's input)";
    return str(" (the output of ", layers()[graph_.size() - 2].name(), ')');
  }

  // The model's own InputLayer as a place, or a new one.
  SymbolicTensor input_place(const Shape& shape) const {
    if (!layers().empty() && layers()[0].impl()->type() == "InputLayer")
      return call_in_graph(layers()[0].impl(), {}, {shape})[0];
    return Input({.shape = {shape.begin() + (shape.empty() ? 0 : 1), shape.end()}});
  }

  std::vector<SymbolicTensor> graph_;  // the input, and the output of each layer built so far
};

}  // namespace

Sequential::Sequential(std::initializer_list<layers::Layer> layers, std::string name)
    : Sequential(std::vector(layers), std::move(name)) {}

Sequential::Sequential(std::vector<layers::Layer> layers, std::string name)
    : Model(std::make_shared<SequentialImpl>(std::move(layers), std::move(name))) {}

}  // namespace tutti::keras
