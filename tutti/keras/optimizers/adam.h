#pragma once

#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras::optimizers {

struct AdamOptions {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> weight_decay = {};     // each update first takes this times the learning rate off
  std::optional<double> clipnorm = {};         // largest norm of each gradient
  std::optional<double> global_clipnorm = {};  // largest norm of all gradients together
  std::optional<double> clipvalue = {};        // largest absolute value of an element
  std::string name = "adam";
};

// m += (1 - beta_1) (g - m), v += (1 - beta_2) (g^2 - v), w -= alpha m / (sqrt(v) + epsilon)
// with alpha = rate * sqrt(1 - beta_2^t) / (1 - beta_1^t); amsgrad takes the largest v so far. Epsilon stands where
// Keras has it ("epsilon hat" in Kingma & Ba 2015), not where torch::optim::Adam has it. TF: tf.keras.optimizers.Adam
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {});
};

}  // namespace tutti::keras::optimizers
