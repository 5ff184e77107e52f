#include "tutti/estimator/head.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/poisson_nll_loss.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/estimator/head_values_internal.h"

namespace tutti::estimator {
namespace {

using namespace head_internal;

constexpr int64_t kEach = 0;  // at::Reduction::None

Tensor sigmoid_losses(const Tensor& logits, const Tensor& labels) {
  return at::binary_cross_entropy_with_logits(logits, labels, {}, {}, kEach);
}

// A classifier's: the probabilities of all classes, and their names.
ExportOutputs outputs_of_classes(const data::Columns& predictions, const char* names) {
  const ClassificationOutput classes{predictions.at("probabilities").tensor(), predictions.at(names).strings()};
  return {{kDefaultSignature, classes}, {"classification", classes}, {"predict", PredictOutput{predictions}}};
}

// Numbers that a function makes of logits.
class RegressionHead : public HeadImpl {
 public:
  // `inverse_link`: null for the logits themselves.
  using Losses = Tensor (*)(const Tensor& logits, const Tensor& labels);
  using Link = Tensor (*)(const Tensor& logits);

  RegressionHead(const RegressionHeadOptions& options, Losses losses, Link inverse_link)
      : options_(options), losses_(losses), inverse_link_(inverse_link) {
    if (options_.label_dimension < 1)
      throw Error(ErrorCode::invalid_argument,
                  str("head: label_dimension is ", options_.label_dimension, "; it is at least 1"));
  }

  int64_t logits_dimension() const override { return options_.label_dimension; }

  data::Columns predictions(const Tensor& logits) const override {
    check_logits(logits, options_.label_dimension);
    if (!inverse_link_) return {{"predictions", logits}};
    return {{"predictions", inverse_link_(logits)}, {"logits", logits}};
  }

  ExportOutputs export_outputs(const data::Columns& predictions) const override {
    const RegressionOutput numbers{predictions.at("predictions").tensor()};
    return {{kDefaultSignature, numbers}, {"regression", numbers}, {"predict", PredictOutput{predictions}}};
  }

  HeadLoss loss(const Input& features, const Input& labels, const Tensor& logits) const override {
    const Tensor wanted = numeric_labels(labels, logits, options_.label_dimension);
    const Tensor losses = losses_(logits, wanted);
    const Tensor weights = weights_of(features, options_.weight_column, losses);
    HeadLoss result = reduced(losses, weights, options_.loss_reduction);
    result.metrics.insert_or_assign("label/mean", mean("label/mean", wanted, weights));
    const Tensor predicted = inverse_link_ ? inverse_link_(logits) : logits;
    result.metrics.insert_or_assign("prediction/mean", mean("prediction/mean", predicted.detach(), weights));
    return result;
  }

 private:
  RegressionHeadOptions options_;
  Losses losses_;
  Link inverse_link_;
};

class BinaryClassHead : public HeadImpl {
 public:
  explicit BinaryClassHead(const ClassHeadOptions& options) : options_(options) {
    check_thresholds(options_.thresholds);
    if (!options_.label_vocabulary.empty() && options_.label_vocabulary.size() != 2)
      throw Error(ErrorCode::invalid_argument, str("head: label_vocabulary has ", options_.label_vocabulary.size(),
                                                   " words, and there are 2 classes"));
  }

  int64_t logits_dimension() const override { return 1; }

  data::Columns predictions(const Tensor& logits) const override {
    check_logits(logits, 1);
    const Tensor logistic = at::sigmoid(logits);
    data::Columns all{{"logits", logits},
                      {"logistic", logistic},
                      {"probabilities", at::softmax(at::cat({logits * 0, logits}, 1), 1)}};
    add_classes(all, (logits > 0).to(at::kLong), 2, options_.label_vocabulary);
    return all;
  }

  ExportOutputs export_outputs(const data::Columns& predictions) const override {
    ExportOutputs outputs = outputs_of_classes(predictions, "all_classes");
    outputs.emplace("regression", RegressionOutput{predictions.at("logistic").tensor()});
    return outputs;
  }

  HeadLoss loss(const Input& features, const Input& labels, const Tensor& logits) const override {
    check_logits(logits, 1);
    const Tensor wanted = class_labels(labels, logits, 2, options_.label_vocabulary).to(logits.scalar_type());
    const Tensor losses = sigmoid_losses(logits, wanted);
    const Tensor weights = weights_of(features, options_.weight_column, losses);
    HeadLoss result = reduced(losses, weights, options_.loss_reduction);
    add_metrics(result.metrics, wanted, logits.detach(), weights);
    return result;
  }

 private:
  void add_metrics(std::map<std::string, EvalMetric>& metrics, const Tensor& labels, const Tensor& logits,
                   const Tensor& weights) const {
    const Tensor probabilities = at::sigmoid(logits);
    std::map<std::string, EvalMetric> at_half;
    add_threshold(at_half, labels, probabilities, weights, 0.5);
    for (const char* name : {"accuracy", "precision", "recall"})
      metrics.insert_or_assign(name, at_half.at(str(name, "/positive_threshold_0.5")));
    metrics.insert_or_assign("label/mean", mean("label/mean", labels, weights));
    metrics.insert_or_assign("prediction/mean", mean("prediction/mean", probabilities, weights));
    metrics.insert_or_assign("accuracy_baseline", baseline(mean("accuracy_baseline", labels, weights)));
    add_areas(metrics, labels, probabilities, weights);
    for (const double threshold : options_.thresholds)
      add_threshold(metrics, labels, probabilities, weights, threshold);
  }

  // The accuracy of who always says what is more frequent.
  static EvalMetric baseline(const EvalMetric& mean_of_labels) {
    const auto sums = [](const Tensor& above, const Tensor& below, const Tensor&) {
      return at::cat({above.sum(at::kDouble).view(1), below.sum(at::kDouble).view(1)});
    };
    const auto result = [](const Tensor& state) {
      const Tensor positive = state[0] / state[1];
      return at::maximum(positive, 1 - positive);
    };
    return {keras::metrics::Metric("accuracy_baseline", {2}, sums, result), mean_of_labels.y_true,
            mean_of_labels.y_pred};
  }

  ClassHeadOptions options_;
};

class MultiClassHead : public HeadImpl {
 public:
  explicit MultiClassHead(const ClassHeadOptions& options) : options_(options) {
    const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, "head: " + what); };
    if (options_.n_classes <= 2)
      refuse(
          str("n_classes is ", options_.n_classes, "; it is 3 or more, and of two classes there is binary_class_head"));
    if (!options_.label_vocabulary.empty() && int64_t(options_.label_vocabulary.size()) != options_.n_classes)
      refuse(str("label_vocabulary has ", options_.label_vocabulary.size(), " words, and there are ",
                 options_.n_classes, " classes"));
  }

  int64_t logits_dimension() const override { return options_.n_classes; }

  data::Columns predictions(const Tensor& logits) const override {
    check_logits(logits, options_.n_classes);
    data::Columns all{{"logits", logits}, {"probabilities", at::softmax(logits, 1)}};
    add_classes(all, logits.argmax(1, /*keepdim=*/true), options_.n_classes, options_.label_vocabulary);
    return all;
  }

  ExportOutputs export_outputs(const data::Columns& predictions) const override {
    return outputs_of_classes(predictions, "all_classes");
  }

  HeadLoss loss(const Input& features, const Input& labels, const Tensor& logits) const override {
    check_logits(logits, options_.n_classes);
    const Tensor wanted = class_labels(labels, logits, options_.n_classes, options_.label_vocabulary).to(at::kLong);
    const Tensor losses = -at::gather(at::log_softmax(logits, 1), 1, wanted);
    const Tensor weights = weights_of(features, options_.weight_column, losses);
    HeadLoss result = reduced(losses, weights, options_.loss_reduction);
    const Tensor hits = (logits.argmax(1, /*keepdim=*/true) == wanted).to(losses.scalar_type());
    result.metrics.insert_or_assign("accuracy", mean("accuracy", hits, weights));
    return result;
  }

 private:
  ClassHeadOptions options_;
};

class MultiLabelHead : public HeadImpl {
 public:
  explicit MultiLabelHead(const ClassHeadOptions& options) : options_(options) {
    if (options_.n_classes <= 1)
      throw Error(ErrorCode::invalid_argument,
                  str("head: n_classes is ", options_.n_classes, "; of many labels there are 2 or more"));
    check_thresholds(options_.thresholds);
    for (const int64_t id : options_.classes_for_class_based_metrics)
      if (id < 0 || id >= options_.n_classes)
        throw Error(ErrorCode::invalid_argument,
                    str("head: classes_for_class_based_metrics has ", id, ", and there are ", options_.n_classes,
                        " classes, numbered from 0"));
  }

  int64_t logits_dimension() const override { return options_.n_classes; }

  data::Columns predictions(const Tensor& logits) const override {
    check_logits(logits, options_.n_classes);
    data::Columns classes;
    const Tensor none = at::arange(1).expand({logits.size(0), 1});
    add_classes(classes, none, options_.n_classes, options_.label_vocabulary);
    return {{"logits", logits}, {"probabilities", at::sigmoid(logits)}, {"classes", classes.at("all_classes")}};
  }

  ExportOutputs export_outputs(const data::Columns& predictions) const override {
    return outputs_of_classes(predictions, "classes");
  }

  HeadLoss loss(const Input& features, const Input& labels, const Tensor& logits) const override {
    const Tensor wanted = numeric_labels(labels, logits, options_.n_classes);
    const Tensor losses = sigmoid_losses(logits, wanted).mean(1, /*keepdim=*/true);
    const Tensor weights = weights_of(features, options_.weight_column, losses);
    HeadLoss result = reduced(losses, weights, options_.loss_reduction);
    const Tensor probabilities = at::sigmoid(logits.detach());
    add_areas(result.metrics, wanted, probabilities, weights);
    for (const double threshold : options_.thresholds)
      add_threshold(result.metrics, wanted, probabilities, weights, threshold);
    for (const int64_t id : options_.classes_for_class_based_metrics) {
      const std::string end = str("/class", id);
      const Tensor labels_of = wanted.slice(1, id, id + 1), probability = probabilities.slice(1, id, id + 1);
      std::map<std::string, EvalMetric> of_class{{"probability_mean", mean("probability_mean", probability, weights)}};
      add_areas(of_class, labels_of, probability, weights);
      for (const auto& [name, metric] : of_class) result.metrics.insert_or_assign(name + end, metric);
    }
    return result;
  }

 private:
  ClassHeadOptions options_;
};

}  // namespace

EstimatorSpec Head::create_estimator_spec(const SpecOfHead& options) const {
  if (options.mode == ModeKeys::predict) {
    const data::Columns predicted = predictions(options.logits);
    return EstimatorSpec({.mode = options.mode, .predictions = predicted, .export_outputs = export_outputs(predicted)});
  }
  HeadLoss found = loss(options.features, options.labels, options.logits);
  for (const Tensor& penalty : options.regularization_losses) found.loss = found.loss + penalty;
  if (options.mode == ModeKeys::eval)
    return EstimatorSpec({.mode = options.mode,
                          .predictions = predictions(options.logits.detach()),
                          .loss = found.loss,
                          .eval_metric_ops = std::move(found.metrics)});
  if (!options.train_op_fn) throw Error(ErrorCode::invalid_argument, "head, mode train: there is no train_op_fn");
  return EstimatorSpec({.mode = options.mode, .loss = found.loss, .train_op = options.train_op_fn(found.loss)});
}

Head regression_head(const RegressionHeadOptions& options) {
  return Head(std::make_shared<RegressionHead>(
      options, [](const Tensor& logits, const Tensor& labels) { return (logits - labels).square(); }, nullptr));
}

Head poisson_regression_head(const RegressionHeadOptions& options, bool compute_full_loss) {
  const auto full = [](const Tensor& logits, const Tensor& labels) {
    return at::poisson_nll_loss(logits, labels, /*log_input=*/true, /*full=*/true, 1e-8, kEach);
  };
  const auto plain = [](const Tensor& logits, const Tensor& labels) {
    return at::poisson_nll_loss(logits, labels, /*log_input=*/true, /*full=*/false, 1e-8, kEach);
  };
  return Head(std::make_shared<RegressionHead>(
      options, compute_full_loss ? RegressionHead::Losses(full) : RegressionHead::Losses(plain),
      [](const Tensor& logits) { return logits.exp(); }));
}

Head logistic_regression_head(const RegressionHeadOptions& options) {
  return Head(std::make_shared<RegressionHead>(options, sigmoid_losses,
                                               [](const Tensor& logits) { return at::sigmoid(logits); }));
}

Head binary_class_head(const ClassHeadOptions& options) { return Head(std::make_shared<BinaryClassHead>(options)); }
Head multi_class_head(const ClassHeadOptions& options) { return Head(std::make_shared<MultiClassHead>(options)); }
Head multi_label_head(const ClassHeadOptions& options) { return Head(std::make_shared<MultiLabelHead>(options)); }

}  // namespace tutti::estimator
