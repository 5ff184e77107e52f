#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/keras/model_impl.h"
#include "tutti/keras/symbolic_tensor.h"

namespace tutti::keras {

// A model that is a graph of layers, between two lists of places in it.
struct FunctionalOptions {
  std::vector<SymbolicTensor> inputs = {};   // what Input returned; batches bring one tensor for each, or a map by name
  std::vector<SymbolicTensor> outputs = {};  // known by the names of the layers that give them
  std::string name = {};
};

// Throws: invalid_argument for an output that depends on an Input that is not listed, one that is listed twice, or an
// input that is none.
std::shared_ptr<ModelImpl> make_functional(const FunctionalOptions& options);

}  // namespace tutti::keras
