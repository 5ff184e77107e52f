#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <functional>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::constraints {

// What training does to a weight after each update: the nearest value that is allowed, or a step towards it.
class Constraint {
 public:
  using Projection = std::function<Tensor(const Tensor&)>;

  // `made_from`: see made_from().
  Constraint(std::string name, Projection projection, std::any made_from = {});

  const std::string& name() const { return name_; }
  // The options of one of Keras's, as files of models say them; empty for another function.
  const std::any& made_from() const { return made_from_; }

  // Returns the constrained weight, of the same shape and dtype.
  Tensor operator()(const Tensor& weight) const { return projection_(weight); }

 private:
  std::string name_;
  Projection projection_;
  std::any made_from_;
};

// max(w, 0). TF: tf.keras.constraints.NonNeg
struct NonNeg : Constraint {
  NonNeg();
};

// `axis` below are the axes over which a norm goes: of a dense kernel {0}, the weights into one unit; of a
// convolution's kernel [height, width, in, out] {0, 1, 2}. The norm is sqrt(sum(w^2)); 1e-7 is added to it where it
// divides.

struct MaxNormOptions {
  double max_value = 2;
  std::vector<int64_t> axis = {0};
};
// Norms are at most max_value. TF: tf.keras.constraints.MaxNorm
struct MaxNorm : Constraint {
  explicit MaxNorm(const MaxNormOptions& options = {});
};

struct UnitNormOptions {
  std::vector<int64_t> axis = {0};
};
// Norms are 1. TF: tf.keras.constraints.UnitNorm
struct UnitNorm : Constraint {
  explicit UnitNorm(const UnitNormOptions& options = {});
};

struct MinMaxNormOptions {
  double min_value = 0;
  double max_value = 1;
  double rate = 1;  // 1: norms lie between the two; less: they move towards it by this share
  std::vector<int64_t> axis = {0};
};
// TF: tf.keras.constraints.MinMaxNorm
struct MinMaxNorm : Constraint {
  explicit MinMaxNorm(const MinMaxNormOptions& options = {});
};

}  // namespace tutti::keras::constraints
