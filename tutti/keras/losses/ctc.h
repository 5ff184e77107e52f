#pragma once

#include <string>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct CTCOptions {
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "ctc";
};

// Minus the log probability of all alignments of the labels with the steps; class 0 is the blank, and fills labels up
// at their end. Infinite where the steps are too few. Shapes: labels, whole numbers, [N, length]; predictions, logits,
// [N, steps, classes]. TF: tf.keras.losses.CTC. Source: Graves et al., Connectionist Temporal Classification, 2006
class CTC : public Loss {
 public:
  explicit CTC(const CTCOptions& options = {});
};

}  // namespace tutti::keras::losses
