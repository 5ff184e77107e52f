#pragma once

#include <optional>
#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;                  // else probabilities, clipped to [1e-7, 1 - 1e-7] and scaled to the sum 1
  std::optional<int64_t> ignore_class = {};  // values with this label are zero and do not count
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "sparse_categorical_crossentropy";
};

// -log(p[label]). Shapes: labels, whole numbers, [N, ...] or [N, ..., 1]; predictions [N, ..., classes].
// TF: tf.keras.losses.SparseCategoricalCrossentropy
class SparseCategoricalCrossentropy : public Loss {
 public:
  explicit SparseCategoricalCrossentropy(const SparseCategoricalCrossentropyOptions& options = {});
};

}  // namespace tutti::keras::losses
