#pragma once

#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

enum class ScoreMode { dot, concat };

struct AttentionOptions {
  bool use_scale = false;  // a weight that the scores are multiplied by
  ScoreMode score_mode = ScoreMode::dot;
  double dropout = 0;  // of the attention's weights, while training; in [0, 1]
  bool use_causal_mask = false;
  bool return_attention_scores = false;  // a second output: the weights [N, T, S]
  std::string name = {};
};

// For each query the mean of the values, weighted by the softmax of query * key, or with ScoreMode::concat of
// weight * sum(tanh(query + key)). Inputs: {query, value} or {query, value, key}, without which the values are the
// keys. Shapes: query [N, T, dim], value [N, S, width], key [N, S, dim]; result [N, T, width]. Values that are masked
// do not count; where a query is, the result is 0. TF: tf.keras.layers.Attention
class Attention : public Layer {
 public:
  explicit Attention(const AttentionOptions& options = {});
};

struct AdditiveAttentionOptions {
  bool use_scale = true;  // a weight [dim]
  double dropout = 0;
  bool use_causal_mask = false;
  bool return_attention_scores = false;
  std::string name = {};
};

// The same with scores sum(scale * tanh(query + key)). TF: tf.keras.layers.AdditiveAttention
class AdditiveAttention : public Layer {
 public:
  explicit AdditiveAttention(const AdditiveAttentionOptions& options = {});
};

}  // namespace tutti::keras::layers
