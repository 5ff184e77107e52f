#pragma once

#include <string>
#include <vector>

#include "tutti/estimator/estimator.h"
#include "tutti/estimator/head.h"
#include "tutti/estimator/optimizer_choice.h"

namespace tutti::estimator {

struct BaselineRegressorOptions {
  std::string model_dir = {};
  int64_t label_dimension = 1;
  std::string weight_column = {};
  OptimizerChoice optimizer = "Ftrl";  // by name with the learning rate 0.3
  RunConfig config = RunConfig();
  LossReduction loss_reduction = LossReduction::sum_over_batch_size;
};

// Learns the mean of the labels and looks at no feature: what other models are compared with. Variable:
// "baseline/bias". TF: tf.estimator.BaselineRegressor.
class BaselineRegressor : public Estimator {
 public:
  explicit BaselineRegressor(const BaselineRegressorOptions& options);
};

struct BaselineClassifierOptions {
  std::string model_dir = {};
  int64_t n_classes = 2;
  std::string weight_column = {};
  std::vector<std::string> label_vocabulary = {};
  OptimizerChoice optimizer = "Ftrl";
  RunConfig config = RunConfig();
  LossReduction loss_reduction = LossReduction::sum_over_batch_size;
};

// Learns how frequent each class is. TF: tf.estimator.BaselineClassifier.
class BaselineClassifier : public Estimator {
 public:
  explicit BaselineClassifier(const BaselineClassifierOptions& options);
};

struct BaselineEstimatorOptions {
  Head head;  // required
  std::string model_dir = {};
  OptimizerChoice optimizer = "Ftrl";
  RunConfig config = RunConfig();
};

// What a head makes of a bias alone. TF: tf.estimator.BaselineEstimator.
class BaselineEstimator : public Estimator {
 public:
  explicit BaselineEstimator(const BaselineEstimatorOptions& options);
};

}  // namespace tutti::estimator
