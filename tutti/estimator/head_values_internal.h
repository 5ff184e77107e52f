#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "tutti/estimator/head.h"

// What heads have in common.
namespace tutti::estimator::head_internal {

// Labels as [batch, dimension] of numbers. Throws: invalid_argument for none, or of another shape.
Tensor numeric_labels(const Input& labels, const Tensor& logits, int64_t dimension);
// Labels as classes, int64 or float [batch, 1], text by the vocabulary. Throws: invalid_argument, with the row, for one
// that is not in [0, n_classes) or in the vocabulary; unimplemented for text without one.
Tensor class_labels(const Input& labels, const Tensor& logits, int64_t n_classes,
                    const std::vector<std::string>& vocabulary);
void check_logits(const Tensor& logits, int64_t dimension);

// The weights of a feature as [batch, 1] or as the losses; undefined for no weight column.
Tensor weights_of(const Input& features, const std::string& weight_column, const Tensor& losses);

// The loss of a batch, and its average over the rows of an evaluation.
HeadLoss reduced(const Tensor& losses, const Tensor& weights, LossReduction reduction);

// The sum of the numerators through that of the denominators; 0 of nothing.
EvalMetric ratio(const std::string& name, const Tensor& numerator, const Tensor& denominator);
// The weighted mean.
EvalMetric mean(const std::string& name, const Tensor& values, const Tensor& weights);

// accuracy, precision and recall where a probability is above a threshold.
void add_threshold(std::map<std::string, EvalMetric>& metrics, const Tensor& labels, const Tensor& probabilities,
                   const Tensor& weights, double threshold);
void add_areas(std::map<std::string, EvalMetric>& metrics, const Tensor& labels, const Tensor& probabilities,
               const Tensor& weights);
void check_thresholds(const std::vector<double>& thresholds);

// class_ids, classes, all_class_ids and all_classes of the most likely classes [batch, 1].
void add_classes(data::Columns& predictions, const Tensor& class_ids, int64_t n_classes,
                 const std::vector<std::string>& vocabulary);

}  // namespace tutti::estimator::head_internal
