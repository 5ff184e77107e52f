#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct SGDOptions {
  LearningRate learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  std::optional<double> weight_decay = {};     // each update first takes this times the learning rate off
  std::optional<double> clipnorm = {};         // largest norm of each gradient
  std::optional<double> global_clipnorm = {};  // largest norm of all gradients together
  std::optional<double> clipvalue = {};        // largest absolute value of an element
  std::string name = "SGD";
};

// w -= rate * g; with momentum v = momentum * v - rate * g, w += v, or w += momentum * v - rate * g (nesterov).
// TF: tf.keras.optimizers.SGD
class SGD : public Optimizer {
 public:
  explicit SGD(const SGDOptions& options = {});
};

}  // namespace tutti::keras::optimizers
