#pragma once

#include <memory>
#include <vector>

#include "tutti/keras/layers/layer_impl.h"
#include "tutti/keras/symbolic_tensor.h"

namespace tutti::keras {

// The layers of a graph, without those that stand for its inputs, in the order in which Keras lists them: those first
// from which the outputs are furthest, and of one distance those that a search from the outputs, depth first, comes to
// first. Source: keras.src.ops.function.map_graph.
std::vector<std::shared_ptr<layers::LayerImpl>> layers_in_graph_order(const std::vector<SymbolicTensor>& inputs,
                                                                      const std::vector<SymbolicTensor>& outputs);

// The calls of that graph, each behind those whose outputs it takes.
std::vector<const Node*> calls_in_graph_order(const std::vector<SymbolicTensor>& inputs,
                                              const std::vector<SymbolicTensor>& outputs);

}  // namespace tutti::keras
