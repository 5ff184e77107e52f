#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/keras/model_impl.h"
#include "tutti/keras/symbolic_tensor.h"

namespace tutti::keras {

// A model that is a graph of layers, between two lists of places in it. Batches bring one tensor for each input, or a
// map by the inputs' names; that of a cut behind the layer "dense" is "dense_output".
struct FunctionalOptions {
  std::vector<SymbolicTensor> inputs = {};   // what Input returned, or any other place: there the graph is cut
  std::vector<SymbolicTensor> outputs = {};  // known by the names of the layers that give them
  std::string name = {};
};

// Throws: invalid_argument for an output that depends on an Input that is not listed, or one that is listed twice.
std::shared_ptr<ModelImpl> make_functional(const FunctionalOptions& options);

}  // namespace tutti::keras
