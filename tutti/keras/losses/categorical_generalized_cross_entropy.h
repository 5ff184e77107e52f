#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct CategoricalGeneralizedCrossEntropyOptions {
  double q = 0.5;  // in (0, 1): near 0 it is a crossentropy, near 1 an absolute error that wrong labels move less
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "categorical_generalized_cross_entropy";
};

// (1 - p[label]^q) / q. Shapes: labels, whole numbers, [N, ...] or [N, ..., 1]; predictions, probabilities,
// [N, ..., classes]. TF: keras.losses.CategoricalGeneralizedCrossEntropy. Source: Zhang and Sabuncu, 2018
class CategoricalGeneralizedCrossEntropy : public Loss {
 public:
  explicit CategoricalGeneralizedCrossEntropy(const CategoricalGeneralizedCrossEntropyOptions& options = {});
};

}  // namespace tutti::keras::losses
