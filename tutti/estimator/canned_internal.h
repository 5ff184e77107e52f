#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/estimator/estimator.h"
#include "tutti/estimator/head.h"
#include "tutti/estimator/optimizer_choice.h"
#include "tutti/feature_column/linear_model.h"
#include "tutti/keras/activations.h"

namespace tutti::estimator::canned {

struct LinearPart {
  std::vector<feature_column::FeatureColumn> columns;
  feature_column::Combiner sparse_combiner;
  OptimizerChoice optimizer;
  double largest_rate;  // of an optimizer chosen by its name, but at most 1 / sqrt(number of columns)
};

struct DeepPart {
  std::vector<feature_column::FeatureColumn> columns;
  std::vector<int64_t> hidden_units;
  keras::activations::Activation activation;
  std::optional<double> dropout;
  bool batch_norm;
  OptimizerChoice optimizer;
};

// A model function: the sum of what its parts say of the features, or of none the bias alone.
struct Model {
  Head head;
  std::optional<DeepPart> deep = {};
  std::optional<LinearPart> linear = {};
  std::optional<OptimizerChoice> of_bias = {};

  EstimatorSpec operator()(const Input& features, const Input& labels, ModeKeys mode) const;
};

// The head of a classifier by the number of classes.
Head class_head(const ClassHeadOptions& options);

// What all canned estimators have of an Estimator's options.
template <class Options>
EstimatorOptions estimator_options(const Options& options) {
  EstimatorOptions result{.model_dir = options.model_dir, .config = options.config};
  if constexpr (requires { options.warm_start_from; }) result.warm_start_from = options.warm_start_from;
  return result;
}

template <class Options>
Head regression_head_of(const Options& options) {
  return regression_head({.label_dimension = options.label_dimension,
                          .weight_column = options.weight_column,
                          .loss_reduction = options.loss_reduction});
}

template <class Options>
Head class_head_of(const Options& options) {
  return class_head({.n_classes = options.n_classes,
                     .weight_column = options.weight_column,
                     .label_vocabulary = options.label_vocabulary,
                     .loss_reduction = options.loss_reduction});
}

}  // namespace tutti::estimator::canned
