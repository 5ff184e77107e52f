#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <functional>
#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::regularizers {

// A penalty on a weight that training adds to the loss.
class Regularizer {
 public:
  using Penalty = std::function<Tensor(const Tensor&)>;

  // `made_from`: see made_from().
  Regularizer(std::string name, Penalty penalty, std::any made_from = {});

  const std::string& name() const { return name_; }
  // Of one of Keras's its options, or the number that it takes, as files of models say them; empty for another
  // function.
  const std::any& made_from() const { return made_from_; }

  // Returns the penalty, a scalar through which gradients flow to `weight`.
  Tensor operator()(const Tensor& weight) const { return penalty_(weight); }

 private:
  std::string name_;
  Penalty penalty_;
  std::any made_from_;
};

// l1 * sum(|w|). TF: tf.keras.regularizers.L1
struct L1 : Regularizer {
  explicit L1(double l1 = 0.01);
};

// l2 * sum(w^2), without the factor 1/2 that weight decay has. TF: tf.keras.regularizers.L2
struct L2 : Regularizer {
  explicit L2(double l2 = 0.01);
};

struct L1L2Options {
  double l1 = 0;
  double l2 = 0;
};
struct L1L2 : Regularizer {
  explicit L1L2(const L1L2Options& options);
};

struct OrthogonalRegularizerOptions {
  enum class Mode { rows, columns };

  double factor = 0.01;
  Mode mode = Mode::rows;
};
// factor times the mean, over all pairs of a matrix's rows (or columns), of the magnitude of their cosine.
// Throws: invalid_argument for a weight that is no matrix. TF: tf.keras.regularizers.OrthogonalRegularizer
struct OrthogonalRegularizer : Regularizer {
  explicit OrthogonalRegularizer(const OrthogonalRegularizerOptions& options = {});
};

}  // namespace tutti::keras::regularizers
