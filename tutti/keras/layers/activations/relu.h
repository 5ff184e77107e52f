#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct ReLUOptions {
  double max_value = std::numeric_limits<double>::infinity();
  double negative_slope = 0;
  double threshold = 0;
  std::string name = {};
};

// max_value where x >= max_value, x above threshold, else negative_slope * (x - threshold).
// TF: tf.keras.layers.ReLU
class ReLU : public Layer {
 public:
  explicit ReLU(const ReLUOptions& options = {});
};

struct LeakyReLUOptions {
  double negative_slope = 0.3;
  std::string name = {};
};

// x where x > 0, else negative_slope * x. TF: tf.keras.layers.LeakyReLU
class LeakyReLU : public Layer {
 public:
  explicit LeakyReLU(const LeakyReLUOptions& options = {});
};

struct ELUOptions {
  double alpha = 1;
  std::string name = {};
};

// x where x > 0, else alpha * (exp(x) - 1). TF: tf.keras.layers.ELU
class ELU : public Layer {
 public:
  explicit ELU(const ELUOptions& options = {});
};

struct PReLUOptions {
  initializers::Initializer alpha_initializer = initializers::Zeros();
  std::optional<regularizers::Regularizer> alpha_regularizer = {};
  std::optional<constraints::Constraint> alpha_constraint = {};
  std::vector<int64_t> shared_axes = {};  // axes, the batch being 0, along which all elements have one slope
  std::string name = {};
};

// x where x > 0, else alpha * x, with a slope to learn for each element. Shapes: x [N, ...], kept; alpha is the rest of
// the input's shape, 1 at shared_axes. TF: tf.keras.layers.PReLU
class PReLU : public Layer {
 public:
  explicit PReLU(const PReLUOptions& options = {});
};

}  // namespace tutti::keras::layers
