#pragma once

#include <string>
#include <vector>

#include "tutti/keras/losses/loss.h"

namespace tutti::keras::losses {

struct DiceOptions {
  std::vector<int64_t> axis = {};  // those summed over; none named: all, the batch with them
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "dice";
};

// 1 - 2 sum(y p) / (sum(y) + sum(p) + 1e-7): how little two regions overlap. If the batch is among the axes, the sums
// go over the global batch, and sample weights and masks are refused. Shapes: both alike. TF: tf.keras.losses.Dice
class Dice : public Loss {
 public:
  explicit Dice(const DiceOptions& options = {});
};

struct TverskyOptions {
  double alpha = 0.5;  // weight of what is predicted and is not there
  double beta = 0.5;   // weight of what is there and is not predicted
  std::vector<int64_t> axis = {};
  Reduction reduction = Reduction::sum_over_batch_size;
  std::string name = "tversky";
};

// 1 - sum(y p) / (sum(y p) + alpha sum((1 - y) p) + beta sum(y (1 - p)) + 1e-7); axes as above.
// TF: tf.keras.losses.Tversky. Source: Salehi et al., Tversky loss function for image segmentation, 2017
class Tversky : public Loss {
 public:
  explicit Tversky(const TverskyOptions& options = {});
};

}  // namespace tutti::keras::losses
