#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tutti/keras/shape.h"

namespace tutti::keras {

namespace layers {
class LayerImpl;
}

struct Node;

// A place in a graph of layers: the output of a layer that is called when the model is. Layers are called on it as on
// tensors, and Model({.inputs = …, .outputs = …}) makes the model. A value; copies are the same place.
// Keras: KerasTensor.
class SymbolicTensor {
 public:
  SymbolicTensor(std::shared_ptr<const Node> node, size_t output) : node_(std::move(node)), output_(output) {}

  // Unknown extents, the batch as a rule, are kUnknown.
  const Shape& shape() const;
  // The layer that gives it, and which of its outputs it is.
  const Node& node() const { return *node_; }
  size_t output() const { return output_; }

  friend bool operator==(const SymbolicTensor&, const SymbolicTensor&) = default;

 private:
  std::shared_ptr<const Node> node_;
  size_t output_;
};

// One call of a layer in a graph.
struct Node {
  std::shared_ptr<layers::LayerImpl> layer;
  std::vector<SymbolicTensor> inputs;
  std::vector<Shape> output_shapes;
};

// The places that a call of `layer`, which notes it, on `inputs` gives.
std::vector<SymbolicTensor> call_in_graph(const std::shared_ptr<layers::LayerImpl>& layer,
                                          std::vector<SymbolicTensor> inputs, std::vector<Shape> output_shapes);

inline const Shape& SymbolicTensor::shape() const { return node_->output_shapes[output_]; }

struct InputLayerOptions {
  Shape shape = {};          // of a sample, without the batch
  int64_t batch = kUnknown;  // samples in a batch, where only that number will do
  std::string name = {};
};

// A graph's entry. Shape: [batch, shape...]. TF: tf.keras.Input
SymbolicTensor Input(const InputLayerOptions& options);

}  // namespace tutti::keras
