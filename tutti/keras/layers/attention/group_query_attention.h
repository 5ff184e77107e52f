#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct GroupQueryAttentionOptions {
  int64_t head_dim = 0;             // required: features of a head
  int64_t num_query_heads = 0;      // required
  int64_t num_key_value_heads = 0;  // required: each serves as many heads of queries
  double dropout = 0;               // of the attention's weights, while training; in [0, 1]
  bool use_bias = true;
  bool use_causal_mask = false;
  bool return_attention_scores = false;  // a second output: the weights [N, query heads, T, S]
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer bias_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::optional<regularizers::Regularizer> activity_regularizer = {};  // of the output, by sample
  std::string name = {};
};

// MultiHeadAttention in which groups of consecutive heads of queries share the keys and values of one head; inputs,
// masks and weights as there, but for key and value, whose kernels are [dim, key-value heads, head_dim].
// Throws: invalid_argument unless num_query_heads is a multiple of num_key_value_heads.
// TF: tf.keras.layers.GroupQueryAttention. Source: Ainslie et al. 2023, arXiv:2305.13245.
class GroupQueryAttention : public Layer {
 public:
  explicit GroupQueryAttention(const GroupQueryAttentionOptions& options);
};

}  // namespace tutti::keras::layers
