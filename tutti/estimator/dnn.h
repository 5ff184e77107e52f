#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/estimator/estimator.h"
#include "tutti/estimator/head.h"
#include "tutti/estimator/optimizer_choice.h"
#include "tutti/feature_column/feature_column.h"
#include "tutti/keras/activations.h"

namespace tutti::estimator {

struct DNNRegressorOptions {
  std::vector<int64_t> hidden_units = {};                           // of each hidden layer
  std::vector<feature_column::FeatureColumn> feature_columns = {};  // required, of numbers
  std::string model_dir = {};
  int64_t label_dimension = 1;
  std::string weight_column = {};
  OptimizerChoice optimizer = "Adagrad";
  keras::activations::Activation activation_fn = keras::activations::relu;
  std::optional<double> dropout = {};  // the probability that a value of a hidden layer is dropped
  RunConfig config = RunConfig();
  std::optional<WarmStartSettings> warm_start_from = {};
  LossReduction loss_reduction = LossReduction::sum_over_batch_size;
  bool batch_norm = false;
};

// Numbers by a network of dense layers. Variables: "dnn/hiddenlayer_0/kernel" and "…/bias", "dnn/logits/…", and
// "dnn/input_from_feature_columns/input_layer/COLUMN_embedding/embedding_weights".
// Throws: invalid_argument for no columns, or one of categories. TF: tf.estimator.DNNRegressor.
class DNNRegressor : public Estimator {
 public:
  explicit DNNRegressor(const DNNRegressorOptions& options);
};

struct DNNClassifierOptions {
  std::vector<int64_t> hidden_units = {};
  std::vector<feature_column::FeatureColumn> feature_columns = {};
  std::string model_dir = {};
  int64_t n_classes = 2;
  std::string weight_column = {};
  std::vector<std::string> label_vocabulary = {};
  OptimizerChoice optimizer = "Adagrad";
  keras::activations::Activation activation_fn = keras::activations::relu;
  std::optional<double> dropout = {};
  RunConfig config = RunConfig();
  std::optional<WarmStartSettings> warm_start_from = {};
  LossReduction loss_reduction = LossReduction::sum_over_batch_size;
  bool batch_norm = false;
};

// One of several classes by a network of dense layers. TF: tf.estimator.DNNClassifier.
class DNNClassifier : public Estimator {
 public:
  explicit DNNClassifier(const DNNClassifierOptions& options);
};

struct DNNEstimatorOptions {
  Head head;  // required, as the columns are
  std::vector<int64_t> hidden_units = {};
  std::vector<feature_column::FeatureColumn> feature_columns = {};
  std::string model_dir = {};
  OptimizerChoice optimizer = "Adagrad";
  keras::activations::Activation activation_fn = keras::activations::relu;
  std::optional<double> dropout = {};
  RunConfig config = RunConfig();
  std::optional<WarmStartSettings> warm_start_from = {};
  bool batch_norm = false;
};

// What a head makes of a network of dense layers. TF: tf.estimator.DNNEstimator.
class DNNEstimator : public Estimator {
 public:
  explicit DNNEstimator(const DNNEstimatorOptions& options);
};

}  // namespace tutti::estimator
