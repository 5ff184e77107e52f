#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct LayerNormalizationOptions {
  std::vector<int64_t> axis = {-1};  // the statistics of a sample go over these
  double epsilon = 1e-3;
  bool center = true;  // add beta
  bool scale = true;   // multiply by gamma
  initializers::Initializer beta_initializer = initializers::Zeros();
  initializers::Initializer gamma_initializer = initializers::Ones();
  std::optional<regularizers::Regularizer> beta_regularizer = {};
  std::optional<regularizers::Regularizer> gamma_regularizer = {};
  std::optional<constraints::Constraint> beta_constraint = {};
  std::optional<constraints::Constraint> gamma_constraint = {};
  std::string name = {};
};

// gamma * (x - mean) / sqrt(variance + epsilon) + beta, with statistics over `axis`, the variance without Bessel's
// correction. Shapes: any, kept; gamma and beta have the input's extents at `axis`.
// TF: tf.keras.layers.LayerNormalization
class LayerNormalization : public Layer {
 public:
  explicit LayerNormalization(const LayerNormalizationOptions& options = {});
};

struct RMSNormalizationOptions {
  std::vector<int64_t> axis = {-1};
  double epsilon = 1e-6;
  std::string name = {};
};

// scale * x / sqrt(mean(x^2) + epsilon), with the mean over `axis`. Shapes: any, kept; scale has the input's extents at
// `axis`. TF: tf.keras.layers.RMSNormalization
class RMSNormalization : public Layer {
 public:
  explicit RMSNormalization(const RMSNormalizationOptions& options = {});
};

struct UnitNormalizationOptions {
  std::vector<int64_t> axis = {-1};
  std::string name = {};
};

// x / max(sqrt(sum(x^2)), 1e-12), with the sum over `axis`. Shapes: any, kept. TF: tf.keras.layers.UnitNormalization
class UnitNormalization : public Layer {
 public:
  explicit UnitNormalization(const UnitNormalizationOptions& options = {});
};

}  // namespace tutti::keras::layers
