#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/estimator/estimator.h"
#include "tutti/estimator/head.h"
#include "tutti/estimator/optimizer_choice.h"
#include "tutti/feature_column/linear_model.h"

namespace tutti::estimator {

struct LinearRegressorOptions {
  std::vector<feature_column::FeatureColumn> feature_columns = {};  // required
  std::string model_dir = {};
  int64_t label_dimension = 1;
  std::string weight_column = {};
  OptimizerChoice optimizer = "Ftrl";  // by name with the learning rate min(0.2, 1 / sqrt(number of columns))
  RunConfig config = RunConfig();
  std::optional<WarmStartSettings> warm_start_from = {};
  LossReduction loss_reduction = LossReduction::sum_over_batch_size;
  feature_column::Combiner sparse_combiner = feature_column::Combiner::sum;
};

// Numbers as a weighted sum of features. Variables: "linear/linear_model/COLUMN/weights" and "…/bias_weights"; features
// are data::Columns. Throws: invalid_argument for no columns. TF: tf.estimator.LinearRegressor.
class LinearRegressor : public Estimator {
 public:
  explicit LinearRegressor(const LinearRegressorOptions& options);
};

struct LinearClassifierOptions {
  std::vector<feature_column::FeatureColumn> feature_columns = {};  // required
  std::string model_dir = {};
  int64_t n_classes = 2;
  std::string weight_column = {};
  std::vector<std::string> label_vocabulary = {};
  OptimizerChoice optimizer = "Ftrl";
  RunConfig config = RunConfig();
  std::optional<WarmStartSettings> warm_start_from = {};
  LossReduction loss_reduction = LossReduction::sum_over_batch_size;
  feature_column::Combiner sparse_combiner = feature_column::Combiner::sum;
};

// One of several classes by weighted sums of features. TF: tf.estimator.LinearClassifier.
class LinearClassifier : public Estimator {
 public:
  explicit LinearClassifier(const LinearClassifierOptions& options);
};

struct LinearEstimatorOptions {
  Head head;  // required, as the columns are
  std::vector<feature_column::FeatureColumn> feature_columns = {};
  std::string model_dir = {};
  OptimizerChoice optimizer = "Ftrl";
  RunConfig config = RunConfig();
  std::optional<WarmStartSettings> warm_start_from = {};
  feature_column::Combiner sparse_combiner = feature_column::Combiner::sum;
};

// What a head makes of weighted sums of features. TF: tf.estimator.LinearEstimator.
class LinearEstimator : public Estimator {
 public:
  explicit LinearEstimator(const LinearEstimatorOptions& options);
};

}  // namespace tutti::estimator
