#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/made_from.h"

namespace tutti::keras {

// How the values of the samples become one number. "Number of values" counts all elements of the unreduced loss: the
// samples, times the steps of a sequence or pixels of an image if there are any; with a mask, those that it keeps.
enum class Reduction {
  sum_over_batch_size,      // sum of value * weight over the number of values
  mean,                     // the same, Keras 3's other name for it
  mean_with_sample_weight,  // sum of value * weight over the sum of weights
  sum,
  none,
};

namespace losses {

class Shards;

// What a loss is before its reduction.
struct Values {
  Tensor values;          // [N] or [N, ...]: one or more of each sample
  Tensor mask = {};       // bool, as the values: those that count; undefined: all
  bool of_batch = false;  // the values belong to the global batch as a whole, equal on all shards, and have any shape
};

// A function of labels and predictions, taken per sample and then reduced. A value; copies are cheap.
// TF: tf.keras.losses.Loss
class Loss {
 public:
  // Returns the unreduced values, [N] or [N, ...], for labels and predictions of N samples.
  using Function = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred)>;
  // The same for a loss that leaves out values, or that looks beyond its own shard.
  using ShardFunction = std::function<Values(const Tensor& y_true, const Tensor& y_pred, const Shards& shards)>;

  Loss(std::string name, Reduction reduction, Function function);
  Loss(std::string name, Reduction reduction, ShardFunction function);
  // One with the defaults, by its name as Keras takes it: "mse", "mean_squared_error", "MeanSquaredError", …;
  // "crossentropy" or "ce" is binary, sparse or categorical as the shapes of labels and predictions say (see
  // label_kind). Throws: invalid_argument for another name.
  Loss(const char* name);

  // Returns the reduced loss, a scalar (unreduced: [N, ...] with Reduction::none); 0 where there is nothing to divide
  // by. Predictions of less than 32 bits are computed with in float32.
  // Shapes: sample_weight, if defined, [N] or as the unreduced values; so mask, bool: values where it is false do not
  //         count, as if they were not there.
  // Grad: to y_pred. Throws: invalid_argument if the shapes do not fit each other or a label is out of range.
  Tensor operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {},
                    const Tensor& mask = {}) const;

  // Returns this shard's share of the loss of a global batch: the shares of all shards add up to what one device would
  // compute on the whole batch, whatever the sizes of the shards; an empty shard's share is zero. In a function that
  // replicas run, the shards are theirs; where the divisor depends on masks or weights it is summed over all of them.
  // Ranks: all replicas, if called in such a function. Throws: as above; invalid_argument with Reduction::none.
  Tensor share(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight, int64_t global_batch_size,
               const Tensor& mask = {}) const;

  const std::string& name() const { return name_; }
  Reduction reduction() const { return reduction_; }
  const MadeFrom& made_from() const { return made_from_; }

 protected:
  void tell_made_from(MadeFrom made_from) { made_from_ = std::move(made_from); }

 private:
  Values unreduced(const Tensor& y_true, const Tensor& y_pred, const Tensor& mask, const Shards& shards) const;
  Tensor reduced(const Values& values, const Tensor& sample_weight, int64_t batch_size, const Shards& shards) const;

  std::string name_;
  Reduction reduction_;
  ShardFunction function_;
  MadeFrom made_from_;
};

}  // namespace losses
}  // namespace tutti::keras
