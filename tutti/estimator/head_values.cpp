#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/strings_from.h"
#include "tutti/estimator/head_values_internal.h"
#include "tutti/estimator/log.h"
#include "tutti/estimator/model_call.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"
#include "tutti/keras/layers/preprocessing/string_lookup.h"
#include "tutti/keras/metrics/auc.h"

namespace tutti::estimator::head_internal {
namespace {

[[noreturn]] void refuse(const std::string& message, ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, "head: " + message);
}

Tensor ids_of(const Strings& labels, const std::vector<std::string>& vocabulary) {
  std::vector<int64_t> ids;
  for (int64_t row = 0; row < labels.size(); ++row) {
    const auto found = std::ranges::find(vocabulary, labels[row]);
    if (found == vocabulary.end())
      refuse(str("label '", labels[row], "' of row ", row, " is not in label_vocabulary ", str_list(vocabulary)));
    ids.push_back(found - vocabulary.begin());
  }
  return at::tensor(ids, at::kLong).view(labels.shape());
}

Tensor with_column(const Tensor& labels, const Tensor& logits, int64_t dimension) {
  const Tensor fitted = labels.dim() == 1 ? labels.unsqueeze(1) : labels;
  if (fitted.dim() != 2 || fitted.size(0) != logits.size(0) || fitted.size(1) != dimension)
    refuse(str("labels have shape ", str_list(labels.sizes()), ", and logits ", str_list(logits.sizes()),
               "; labels are [batch, ", dimension, ']'));
  return fitted;
}

// Throws for numbers that a cast would change.
void require_real(const Tensor& values, const char* what) {
  if (values.is_complex()) refuse(str(what, " are complex; give real numbers"));
}

// In a program that is saved, a step of it.
Strings names_of_classes(const Tensor& ids, const std::vector<std::string>& names) {
  using keras::layers::StringLookup;
  if (!keras::layers::StepRecorder::current()) return strings_from(ids, names);
  return StringLookup({.num_oov_indices = 0, .vocabulary = names, .invert = true})(ids);
}

}  // namespace

void check_logits(const Tensor& logits, int64_t dimension) {
  if (!logits.defined() || logits.dim() != 2 || logits.size(1) != dimension)
    refuse(str("logits have shape ", logits.defined() ? str_list(logits.sizes()) : "none", "; they are [batch, ",
               dimension, ']'));
}

Tensor numeric_labels(const Input& labels, const Tensor& logits, int64_t dimension) {
  check_logits(logits, dimension);
  if (labels.empty()) refuse("there are no labels; input_fn gives (features, labels)");
  if (labels.is_text()) refuse("labels are text, and numbers are wanted", ErrorCode::unimplemented);
  require_real(labels.tensor(), "labels");
  return with_column(labels.tensor(), logits, dimension).to(logits.device(), logits.scalar_type());
}

Tensor class_labels(const Input& labels, const Tensor& logits, int64_t n_classes,
                    const std::vector<std::string>& vocabulary) {
  if (labels.empty()) refuse("there are no labels; input_fn gives (features, labels)");
  if (labels.is_text() && vocabulary.empty())
    refuse("labels are text; give label_vocabulary, or numbers", ErrorCode::unimplemented);
  if (!labels.is_text() && !vocabulary.empty()) refuse("label_vocabulary is given, and labels are numbers, not text");
  const Tensor given = labels.is_text() ? ids_of(labels.strings(), vocabulary) : labels.tensor();
  require_real(given, "labels");
  if (n_classes > 2 && given.is_floating_point())
    refuse(str("labels have dtype ", c10::toString(given.scalar_type()), "; of ", n_classes,
               " classes they are integers: cast them where they are classes"));
  const bool is_bool = given.scalar_type() == at::kBool;
  const Tensor fitted = with_column(is_bool ? given.to(at::kLong) : given, logits, 1).to(logits.device());
  if (fitted.numel() == 0) return fitted;
  const Tensor largest = fitted.max(), smallest = fitted.min();
  if (!(smallest.item<double>() >= 0 && largest.item<double>() <= static_cast<double>(n_classes - 1)))
    refuse(str("labels lie in [", number_text(smallest.item<double>()), ", ", number_text(largest.item<double>()),
               "], and there are ", n_classes, " classes, numbered from 0"));
  return fitted;
}

Tensor weights_of(const Input& features, const std::string& weight_column, const Tensor& losses) {
  if (weight_column.empty()) return {};
  const auto& numbers = features.columns().numbers;
  const auto found = numbers.find(weight_column);
  if (found == numbers.end())
    refuse(str("the weight_column '", weight_column, "' is no feature of numbers; there are ",
               str_list(features.columns().names())));
  const Tensor given = found->second;
  require_real(given, "weights");
  const Tensor weights = given.dim() == 1 ? given.unsqueeze(1) : given;
  const bool fits = weights.dim() == 2 && weights.size(0) == losses.size(0) &&
                    (weights.size(1) == 1 || weights.size(1) == losses.size(1));
  if (!fits)
    refuse(str("the weight_column '", weight_column, "' has shape ", str_list(given.sizes()), ", and the losses ",
               str_list(losses.sizes()), "; there is a weight for each example"));
  return weights.to(losses.device(), losses.scalar_type());
}

HeadLoss reduced(const Tensor& losses, const Tensor& weights, LossReduction reduction) {
  const Tensor sum = weights.defined() ? (losses * weights).sum() : losses.sum();
  const bool is_sum = reduction == LossReduction::sum;
  if (ModelCall* const call = ModelCall::current()) call->set_loss_is_sum(is_sum);
  const auto divided = [&] {
    if (reduction != LossReduction::mean || !weights.defined()) return sum / static_cast<double>(losses.numel());
    const Tensor divisor = weights.expand(losses.sizes()).sum();
    return sum / at::where(divisor == 0, at::ones_like(divisor), divisor);
  };
  const Tensor loss = is_sum || losses.numel() == 0 ? sum : divided();
  return {loss, {{"average_loss", mean("average_loss", losses.detach(), weights)}}};
}

EvalMetric ratio(const std::string& name, const Tensor& numerator, const Tensor& denominator) {
  const auto sums = [](const Tensor& above, const Tensor& below, const Tensor&) {
    return at::stack({above.sum(at::kDouble), below.sum(at::kDouble)});
  };
  const auto result = [](const Tensor& state) {
    const Tensor below = state[1];
    return at::where(below == 0, below * 0, state[0] / at::where(below == 0, at::ones_like(below), below));
  };
  return {keras::metrics::Metric(name, {2}, sums, result), numerator, denominator};
}

EvalMetric mean(const std::string& name, const Tensor& values, const Tensor& weights) {
  const Tensor spread = weights.defined() ? weights.expand(values.sizes()) : at::ones_like(values);
  return ratio(name, values * spread, spread);
}

void add_threshold(std::map<std::string, EvalMetric>& metrics, const Tensor& labels, const Tensor& probabilities,
                   const Tensor& weights, double threshold) {
  const Tensor predicted = (probabilities > threshold).to(probabilities.scalar_type());
  const Tensor spread = weights.defined() ? weights.expand(labels.sizes()) : at::ones_like(labels);
  const std::string end = "/positive_threshold_" + number_text(threshold);
  const auto add = [&](const std::string& name, EvalMetric metric) {
    metrics.insert_or_assign(name + end, std::move(metric));
  };
  const Tensor hits = predicted * labels * spread;
  add("accuracy", mean("accuracy", (predicted == labels).to(labels.scalar_type()), weights));
  add("precision", ratio("precision", hits, predicted * spread));
  add("recall", ratio("recall", hits, labels * spread));
}

void add_areas(std::map<std::string, EvalMetric>& metrics, const Tensor& labels, const Tensor& probabilities,
               const Tensor& weights) {
  const Tensor flat_weights = weights.defined() ? weights.expand(labels.sizes()).reshape(-1) : Tensor();
  const Tensor flat_labels = labels.reshape(-1), flat = probabilities.reshape(-1);
  metrics.insert_or_assign("auc", EvalMetric{keras::metrics::AUC(), flat_labels, flat, flat_weights});
  metrics.insert_or_assign(
      "auc_precision_recall",
      EvalMetric{keras::metrics::AUC({.curve = keras::metrics::AUCCurve::pr}), flat_labels, flat, flat_weights});
}

void check_thresholds(const std::vector<double>& thresholds) {
  for (const double threshold : thresholds)
    if (!(threshold > 0 && threshold < 1)) refuse(str("threshold ", threshold, " does not lie between 0 and 1"));
}

void add_classes(data::Columns& predictions, const Tensor& class_ids, int64_t n_classes,
                 const std::vector<std::string>& vocabulary) {
  std::vector<std::string> names = vocabulary;
  for (int64_t id = 0; vocabulary.empty() && id < n_classes; ++id) names.push_back(std::to_string(id));
  const Tensor all = at::arange(n_classes, at::kInt).expand({class_ids.size(0), n_classes}).contiguous();
  predictions.set("class_ids", class_ids);
  predictions.set("classes", names_of_classes(class_ids, names));
  predictions.set("all_class_ids", all);
  predictions.set("all_classes", names_of_classes(all, names));
}

}  // namespace tutti::estimator::head_internal
