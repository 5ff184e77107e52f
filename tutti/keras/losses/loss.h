#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras {

// How the values of the samples become one number. "Number of values" counts all elements of the unreduced loss: the
// samples, times the steps of a sequence or pixels of an image if there are any.
enum class Reduction {
  sum_over_batch_size,      // sum of value * weight over the number of values
  mean,                     // the same, Keras 3's other name for it
  mean_with_sample_weight,  // sum of value * weight over the sum of weights
  sum,
  none,
};

namespace losses {

// A function of labels and predictions, taken per sample and then reduced. A value; copies are cheap.
// TF: tf.keras.losses.Loss
class Loss {
 public:
  // Returns the unreduced values, [N] or [N, ...], for labels and predictions of N samples.
  using Function = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred)>;

  Loss(std::string name, Reduction reduction, Function function);

  // Returns the reduced loss, a scalar (unreduced: [N, ...] with Reduction::none).
  // Shapes: sample_weight, if defined, [N] or as the unreduced values.
  // Grad: to y_pred. Throws: invalid_argument if the shapes do not fit each other or a label is out of range.
  Tensor operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {}) const;

  // Returns this shard's share of the loss of a global batch: the shares of all shards add up to what one device would
  // compute on the whole batch, whatever the sizes of the shards; an empty shard's share is zero.
  // Throws: invalid_argument with Reduction::none, unimplemented with mean_with_sample_weight, whose divisor is not
  // known to one shard.
  Tensor share(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
               int64_t global_batch_size) const;

  const std::string& name() const { return name_; }
  Reduction reduction() const { return reduction_; }

 private:
  Tensor weighted_values(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight) const;

  std::string name_;
  Reduction reduction_;
  Function function_;
};

}  // namespace losses
}  // namespace tutti::keras
