#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct PoissonOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "poisson";
};

// The mean over the last axis of p - y log(p + 1e-7). Shapes: both [N, ..., features].
// TF: tf.keras.losses.Poisson
class Poisson : public Loss {
 public:
  explicit Poisson(const PoissonOptions& options = {});
};

}  // namespace tutti::keras::losses
