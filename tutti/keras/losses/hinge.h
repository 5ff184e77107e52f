#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct HingeOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "hinge";
};

// The mean over the last axis of max(1 - y p, 0), for labels -1 and 1. Where all labels of the batch are 0 or 1, zeros
// count as -1. Shapes: both [N, ..., labels]. TF: tf.keras.losses.Hinge
class Hinge : public Loss {
 public:
  explicit Hinge(const HingeOptions& options = {});
};

struct SquaredHingeOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "squared_hinge";
};

// The mean over the last axis of max(1 - y p, 0)^2; labels as above. TF: tf.keras.losses.SquaredHinge
class SquaredHinge : public Loss {
 public:
  explicit SquaredHinge(const SquaredHingeOptions& options = {});
};

struct CategoricalHingeOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "categorical_hinge";
};

// max(neg - pos + 1, 0) over the last axis: pos is sum(y p), neg the greatest (1 - y) p, for labels 0 and 1.
// Shapes: both [N, ..., classes]. TF: tf.keras.losses.CategoricalHinge
class CategoricalHinge : public Loss {
 public:
  explicit CategoricalHinge(const CategoricalHingeOptions& options = {});
};

}  // namespace tutti::keras::losses
