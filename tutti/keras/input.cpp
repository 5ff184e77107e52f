#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/symbolic_tensor.h"

namespace tutti::keras {

SymbolicTensor Input(const InputLayerOptions& options) {
  const layers::InputLayer layer(options);
  return call_in_graph(layer.impl(), {}, {layer.compute_output_shape({})})[0];
}

std::vector<SymbolicTensor> call_in_graph(const std::shared_ptr<layers::LayerImpl>& layer,
                                          std::vector<SymbolicTensor> inputs, std::vector<Shape> output_shapes) {
  const auto node = std::make_shared<const Node>(
      Node{.layer = layer, .inputs = std::move(inputs), .output_shapes = std::move(output_shapes)});
  layer->note_call(node);
  std::vector<SymbolicTensor> places;
  for (size_t i = 0; i < node->output_shapes.size(); ++i) places.emplace_back(node, i);
  return places;
}

}  // namespace tutti::keras
