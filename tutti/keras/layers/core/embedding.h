#pragma once

#include <optional>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct EmbeddingOptions {
  int64_t input_dim = 0;   // required: ids are in [0, input_dim)
  int64_t output_dim = 0;  // required
  initializers::Initializer embeddings_initializer = initializers::RandomUniform();
  std::optional<regularizers::Regularizer> embeddings_regularizer = {};
  std::optional<regularizers::Regularizer> activity_regularizer = {};  // of the output, by sample
  bool mask_zero = false;                                              // id 0 is padding: later layers skip it
  std::string name = {};
};

// The rows of a weight that ids name. Shapes: x [...] of an integer dtype, result [..., output_dim]; embeddings
// [input_dim, output_dim]. Throws: invalid_argument for another dtype, and on CPUs for an id that names no row; on
// other devices LibTorch stops the program at one. TF: tf.keras.layers.Embedding
class Embedding : public Layer {
 public:
  explicit Embedding(const EmbeddingOptions& options);
};

}  // namespace tutti::keras::layers
