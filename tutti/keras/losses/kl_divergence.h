#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct KLDivergenceOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "kl_divergence";
};

// sum(y log(y / p)) over the last axis, both clipped to [1e-7, 1]. Shapes: both [N, ..., classes].
// TF: tf.keras.losses.KLDivergence
class KLDivergence : public Loss {
 public:
  explicit KLDivergence(const KLDivergenceOptions& options = {});
};

}  // namespace tutti::keras::losses
