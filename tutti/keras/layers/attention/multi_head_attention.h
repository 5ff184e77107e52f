#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct MultiHeadAttentionOptions {
  int64_t num_heads = 0;                  // required
  int64_t key_dim = 0;                    // required: features of a head's queries and keys
  std::optional<int64_t> value_dim = {};  // of its values; as many unless given
  double dropout = 0;                     // of the attention's weights, while training; in [0, 1]
  bool use_bias = true;
  std::optional<int64_t> output_dim = {};  // as many as the query has unless given
  bool use_causal_mask = false;
  bool return_attention_scores = false;  // a second output: the weights [N, heads, T, S]
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer bias_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::optional<regularizers::Regularizer> activity_regularizer = {};  // of the output, by sample
  std::string name = {};
};

// softmax(query * key / sqrt(key_dim)) * value in each head, of projections of the inputs, and a projection of all
// heads together. Inputs: {x} for self-attention, {query, value}, {query, value, key}, or these and an attention mask,
// bool, true where a query looks at a value. Shapes: query [N, T, dim], value and key [N, S, ...], attention mask [N,
// T, S]; result [N, T, output_dim]. Weights, in Keras's order: query/kernel [dim, heads, key_dim] and bias [heads,
// key_dim], the same of key and value, attention_output/kernel [heads, value_dim, output_dim] and bias. Steps that are
// masked do not count. TF: tf.keras.layers.MultiHeadAttention
class MultiHeadAttention : public Layer {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);
};

}  // namespace tutti::keras::layers
