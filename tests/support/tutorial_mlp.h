#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>
#include <vector>

#include "tutti/mesh/layout.h"

namespace tutti {

// Where the weights, biases and batches of a TutorialMlp lie. Biases follow the last axis of their weight.
struct TutorialLayouts {
  std::string name;
  Mesh mesh;
  std::vector<std::string> weight1, weight2, inputs, labels;
};

// The model of TensorFlow's DTensor tutorial: a dense layer with ReLU, normalized over the batch, and a dense layer;
// summed cross-entropy, plain SGD. Nothing in it speaks of meshes.
struct TutorialMlp {
  at::Tensor weight1, bias1, weight2, bias2;  // [in, hidden], [hidden], [hidden, out], [out]; leaves

  struct Step {
    double loss;      // of the batch before the update, by the number of examples
    double accuracy;  // likewise
  };

  std::array<at::Tensor*, 4> parameters() { return {&weight1, &bias1, &weight2, &bias2}; }

  // The same values on a mesh.
  TutorialMlp on(const TutorialLayouts& layouts) const;
  at::Tensor logits(const at::Tensor& inputs) const;
  Step train(const at::Tensor& inputs, const at::Tensor& labels, double learning_rate);
};

}  // namespace tutti
