#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::optimizers {

class OptimizerImpl;

// What a training step is to do with its losses: a note that whoever runs the step carries out.
struct TrainOp {
  struct Update {
    std::shared_ptr<OptimizerImpl> optimizer;
    Tensor loss;                    // whose gradients are applied
    std::vector<Tensor> variables;  // to which
  };
  std::vector<Update> updates = {};
  bool counts_step = false;  // one more in the global step

  explicit operator bool() const { return !updates.empty() || counts_step; }
};

// All updates, one after the other; the step counts once. TF: tf.group.
inline TrainOp group(const std::vector<TrainOp>& ops) {
  TrainOp all;
  for (const TrainOp& op : ops) {
    all.updates.insert(all.updates.end(), op.updates.begin(), op.updates.end());
    all.counts_step |= op.counts_step;
  }
  return all;
}

}  // namespace tutti::keras::optimizers
