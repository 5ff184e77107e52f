#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/estimator/baseline.h"
#include "tutti/estimator/canned_internal.h"
#include "tutti/estimator/dnn.h"
#include "tutti/estimator/dnn_linear_combined.h"
#include "tutti/estimator/linear.h"
#include "tutti/estimator/model_call.h"
#include "tutti/feature_column/dense_features.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/regularization/dropout.h"

namespace tutti::estimator {
namespace {

namespace layers = keras::layers;
using keras::optimizers::TrainOp;

// What is made while it lives has this before its names.
class NamePrefix {
 public:
  explicit NamePrefix(const std::string& prefix)
      : call_(*ModelCall::current()), outer_(std::exchange(call_.prefix, call_.prefix + prefix)) {}
  ~NamePrefix() { call_.prefix = outer_; }
  NamePrefix(const NamePrefix&) = delete;
  NamePrefix& operator=(const NamePrefix&) = delete;

 private:
  ModelCall& call_;
  std::string outer_;
};

Tensor deep_logits(const canned::DeepPart& part, const data::Columns& features, int64_t dimension, bool training) {
  const NamePrefix deep("dnn/");
  Tensor net;
  {
    const NamePrefix input("input_from_feature_columns/");
    net = layers::DenseFeatures(part.columns, {.name = "input_layer"})(features);
  }
  for (size_t i = 0; i < part.hidden_units.size(); ++i) {
    const std::string name = str("hiddenlayer_", i);
    net = layers::Dense({.units = part.hidden_units[i], .activation = part.activation, .name = name})(net);
    const layers::CallOptions options{.training = training};
    if (part.dropout && training) net = layers::Dropout({.rate = *part.dropout})(net, options);
    if (!part.batch_norm) continue;
    const NamePrefix layer(name + '/');
    net = layers::BatchNormalization({.momentum = 0.999, .name = str("batchnorm_", i)})(net, options);
  }
  return layers::Dense({.units = dimension, .name = "logits"})(net);
}

Tensor linear_logits(const canned::LinearPart& part, const data::Columns& features, int64_t dimension) {
  const NamePrefix linear("linear/");
  return feature_column::LinearModel(part.columns,
                                     {.units = dimension, .sparse_combiner = part.sparse_combiner})(features);
}

Tensor bias_logits(const Input& features, int64_t dimension) {
  const Tensor bias = get_variable("baseline/bias", {dimension}, keras::initializers::Zeros());
  return bias.expand({num_rows(Batch{features}), dimension});
}

void require_columns(bool holds, const char* what) {
  if (!holds) throw Error(ErrorCode::invalid_argument, str("a canned estimator: ", what));
}

canned::LinearPart linear_part(std::vector<feature_column::FeatureColumn> columns, feature_column::Combiner combiner,
                               OptimizerChoice optimizer, double largest_rate) {
  require_columns(!columns.empty(), "feature_columns is empty; give one column or more");
  return {std::move(columns), combiner, std::move(optimizer), largest_rate};
}

canned::DeepPart deep_part(std::vector<feature_column::FeatureColumn> columns, std::vector<int64_t> hidden_units,
                           keras::activations::Activation activation, std::optional<double> dropout, bool batch_norm,
                           OptimizerChoice optimizer) {
  require_columns(!columns.empty(), "feature_columns is empty; give one column or more");
  for (const auto& column : columns)
    if (!column->is_dense()) (void)column->variable_shape();  // which throws
  return {std::move(columns), std::move(hidden_units), activation, dropout, batch_norm, std::move(optimizer)};
}

template <class Options>
canned::Model linear_model(const Options& options, Head head) {
  return {.head = std::move(head),
          .linear = linear_part(options.feature_columns, options.sparse_combiner, options.optimizer, 0.2)};
}

template <class Options>
canned::Model deep_model(const Options& options, Head head) {
  return {.head = std::move(head),
          .deep = deep_part(options.feature_columns, options.hidden_units, options.activation_fn, options.dropout,
                            options.batch_norm, options.optimizer)};
}

template <class Options>
canned::Model combined_model(const Options& options, Head head) {
  canned::Model model{.head = std::move(head)};
  require_columns(!options.linear_feature_columns.empty() || !options.dnn_feature_columns.empty(),
                  "linear_feature_columns and dnn_feature_columns are empty; give some");
  if (!options.dnn_feature_columns.empty()) {
    require_columns(!options.dnn_hidden_units.empty(), "there are dnn_feature_columns, and dnn_hidden_units is empty");
    model.deep = deep_part(options.dnn_feature_columns, options.dnn_hidden_units, options.dnn_activation_fn,
                           options.dnn_dropout, options.batch_norm, options.dnn_optimizer);
  }
  if (!options.linear_feature_columns.empty())
    model.linear =
        linear_part(options.linear_feature_columns, options.linear_sparse_combiner, options.linear_optimizer, 0.005);
  return model;
}

}  // namespace

Head canned::class_head(const ClassHeadOptions& options) {
  if (options.n_classes < 2)
    throw Error(ErrorCode::invalid_argument,
                str("a canned classifier: n_classes is ", options.n_classes, "; it is 2 or more"));
  return options.n_classes == 2 ? binary_class_head(options) : multi_class_head(options);
}

EstimatorSpec canned::Model::operator()(const Input& features, const Input& labels, ModeKeys mode) const {
  const int64_t dimension = head.logits_dimension();
  Tensor logits;
  std::vector<std::pair<keras::optimizers::Optimizer, std::vector<Tensor>>> trained;
  // Notes what a part's logits depend on, and adds them to the others'.
  const auto add = [&](const Tensor& part, const OptimizerChoice& optimizer, std::optional<double> rate) {
    std::vector<Tensor> variables = ModelCall::current()->trainable_variables();
    size_t before = 0;
    for (const auto& [of_other, others] : trained) before += others.size();
    variables.erase(variables.begin(), variables.begin() + static_cast<int64_t>(before));
    trained.emplace_back(optimizer.make(rate), std::move(variables));
    logits = logits.defined() ? logits + part : part;
  };
  if (deep) add(deep_logits(*deep, features.columns(), dimension, mode == ModeKeys::train), deep->optimizer, {});
  if (linear)
    add(linear_logits(*linear, features.columns(), dimension), linear->optimizer,
        std::min(linear->largest_rate, 1 / std::sqrt(static_cast<double>(linear->columns.size()))));
  if (of_bias) add(bias_logits(features, dimension), *of_bias, 0.3);
  const auto train_op = [&](const Tensor& loss) {
    std::vector<TrainOp> ops;
    for (const auto& [optimizer, variables] : trained)
      ops.push_back(optimizer.minimize(loss, get_global_step(), variables));
    return keras::optimizers::group(ops);
  };
  return head.create_estimator_spec(
      {.features = features, .mode = mode, .logits = logits, .labels = labels, .train_op_fn = train_op});
}

LinearRegressor::LinearRegressor(const LinearRegressorOptions& options)
    : Estimator(linear_model(options, canned::regression_head_of(options)), canned::estimator_options(options)) {}

LinearClassifier::LinearClassifier(const LinearClassifierOptions& options)
    : Estimator(linear_model(options, canned::class_head_of(options)), canned::estimator_options(options)) {}

DNNRegressor::DNNRegressor(const DNNRegressorOptions& options)
    : Estimator(deep_model(options, canned::regression_head_of(options)), canned::estimator_options(options)) {}

DNNClassifier::DNNClassifier(const DNNClassifierOptions& options)
    : Estimator(deep_model(options, canned::class_head_of(options)), canned::estimator_options(options)) {}

DNNLinearCombinedRegressor::DNNLinearCombinedRegressor(const DNNLinearCombinedRegressorOptions& options)
    : Estimator(combined_model(options, canned::regression_head_of(options)), canned::estimator_options(options)) {}

DNNLinearCombinedClassifier::DNNLinearCombinedClassifier(const DNNLinearCombinedClassifierOptions& options)
    : Estimator(combined_model(options, canned::class_head_of(options)), canned::estimator_options(options)) {}

BaselineRegressor::BaselineRegressor(const BaselineRegressorOptions& options)
    : Estimator(canned::Model{.head = canned::regression_head_of(options), .of_bias = options.optimizer},
                canned::estimator_options(options)) {}

BaselineClassifier::BaselineClassifier(const BaselineClassifierOptions& options)
    : Estimator(canned::Model{.head = canned::class_head_of(options), .of_bias = options.optimizer},
                canned::estimator_options(options)) {}

LinearEstimator::LinearEstimator(const LinearEstimatorOptions& options)
    : Estimator(linear_model(options, options.head), canned::estimator_options(options)) {}

DNNEstimator::DNNEstimator(const DNNEstimatorOptions& options)
    : Estimator(deep_model(options, options.head), canned::estimator_options(options)) {}

DNNLinearCombinedEstimator::DNNLinearCombinedEstimator(const DNNLinearCombinedEstimatorOptions& options)
    : Estimator(combined_model(options, options.head), canned::estimator_options(options)) {}

BaselineEstimator::BaselineEstimator(const BaselineEstimatorOptions& options)
    : Estimator(canned::Model{.head = options.head, .of_bias = options.optimizer}, canned::estimator_options(options)) {
}

}  // namespace tutti::estimator
