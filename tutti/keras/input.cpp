#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/symbolic_tensor.h"

namespace tutti::keras {

SymbolicTensor Input(const InputOptions& options) {
  const layers::InputLayer layer(options);
  auto node = std::make_shared<Node>(
      Node{.layer = layer.impl(), .inputs = {}, .output_shapes = {layer.compute_output_shape({})}});
  return {std::move(node), 0};
}

}  // namespace tutti::keras
