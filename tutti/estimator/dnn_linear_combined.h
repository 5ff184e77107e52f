#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/estimator/dnn.h"
#include "tutti/estimator/linear.h"

namespace tutti::estimator {

struct DNNLinearCombinedRegressorOptions {
  std::string model_dir = {};
  std::vector<feature_column::FeatureColumn> linear_feature_columns = {};
  OptimizerChoice linear_optimizer = "Ftrl";  // by name with the learning rate min(0.005, 1 / sqrt(number of columns))
  std::vector<feature_column::FeatureColumn> dnn_feature_columns = {};
  OptimizerChoice dnn_optimizer = "Adagrad";
  std::vector<int64_t> dnn_hidden_units = {};
  keras::activations::Activation dnn_activation_fn = keras::activations::relu;
  std::optional<double> dnn_dropout = {};
  int64_t label_dimension = 1;
  std::string weight_column = {};
  RunConfig config = RunConfig();
  std::optional<WarmStartSettings> warm_start_from = {};
  LossReduction loss_reduction = LossReduction::sum_over_batch_size;
  bool batch_norm = false;
  feature_column::Combiner linear_sparse_combiner = feature_column::Combiner::sum;
};

// The sum of a linear and a deep model, each with an optimizer of its own; one of them may have no columns.
// Throws: invalid_argument for no columns at all, or columns of the network without hidden units.
// TF: tf.estimator.DNNLinearCombinedRegressor.
class DNNLinearCombinedRegressor : public Estimator {
 public:
  explicit DNNLinearCombinedRegressor(const DNNLinearCombinedRegressorOptions& options);
};

struct DNNLinearCombinedClassifierOptions {
  std::string model_dir = {};
  std::vector<feature_column::FeatureColumn> linear_feature_columns = {};
  OptimizerChoice linear_optimizer = "Ftrl";
  std::vector<feature_column::FeatureColumn> dnn_feature_columns = {};
  OptimizerChoice dnn_optimizer = "Adagrad";
  std::vector<int64_t> dnn_hidden_units = {};
  keras::activations::Activation dnn_activation_fn = keras::activations::relu;
  std::optional<double> dnn_dropout = {};
  int64_t n_classes = 2;
  std::string weight_column = {};
  std::vector<std::string> label_vocabulary = {};
  RunConfig config = RunConfig();
  std::optional<WarmStartSettings> warm_start_from = {};
  LossReduction loss_reduction = LossReduction::sum_over_batch_size;
  bool batch_norm = false;
  feature_column::Combiner linear_sparse_combiner = feature_column::Combiner::sum;
};

// TF: tf.estimator.DNNLinearCombinedClassifier.
class DNNLinearCombinedClassifier : public Estimator {
 public:
  explicit DNNLinearCombinedClassifier(const DNNLinearCombinedClassifierOptions& options);
};

struct DNNLinearCombinedEstimatorOptions {
  Head head;  // required
  std::string model_dir = {};
  std::vector<feature_column::FeatureColumn> linear_feature_columns = {};
  OptimizerChoice linear_optimizer = "Ftrl";
  std::vector<feature_column::FeatureColumn> dnn_feature_columns = {};
  OptimizerChoice dnn_optimizer = "Adagrad";
  std::vector<int64_t> dnn_hidden_units = {};
  keras::activations::Activation dnn_activation_fn = keras::activations::relu;
  std::optional<double> dnn_dropout = {};
  RunConfig config = RunConfig();
  std::optional<WarmStartSettings> warm_start_from = {};
  bool batch_norm = false;
  feature_column::Combiner linear_sparse_combiner = feature_column::Combiner::sum;
};

// What a head makes of the sum of a linear and a deep model. TF: tf.estimator.DNNLinearCombinedEstimator.
class DNNLinearCombinedEstimator : public Estimator {
 public:
  explicit DNNLinearCombinedEstimator(const DNNLinearCombinedEstimatorOptions& options);
};

}  // namespace tutti::estimator
