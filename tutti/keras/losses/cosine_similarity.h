#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct CosineSimilarityOptions {
  int64_t axis = -1;  // the one along which vectors lie
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "cosine_similarity";
};

// Minus the cosine of the angle between labels and predictions: -1 is the same direction. A vector shorter than 1e-7
// counts as that long. Shapes: both [N, ..., features]. TF: tf.keras.losses.CosineSimilarity
class CosineSimilarity : public Loss {
 public:
  explicit CosineSimilarity(const CosineSimilarityOptions& options = {});
};

}  // namespace tutti::keras::losses
