// What Keras returned for metrics and learning-rate schedules (tests/oracle/metrics.json), case by case.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "tests/support/oracle_cases.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/auc.h"
#include "tutti/keras/metrics/confusion_counts.h"
#include "tutti/keras/metrics/correlation.h"
#include "tutti/keras/metrics/crossentropy.h"
#include "tutti/keras/metrics/f_score.h"
#include "tutti/keras/metrics/hinge.h"
#include "tutti/keras/metrics/iou.h"
#include "tutti/keras/metrics/mean.h"
#include "tutti/keras/metrics/precision_recall.h"
#include "tutti/keras/metrics/r2_score.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/metrics/sensitivity_specificity.h"
#include "tutti/keras/optimizers/learning_rate.h"
#include "tutti/keras/optimizers/schedules.h"

namespace tutti::keras {
namespace {

using metrics::Metric;
using oracle::Json;

// What a Python call was given. All of it must be asked for, lest a case be run as another.
class Arguments {
 public:
  explicit Arguments(const Json& json) : json_(json) {}

  template <class T>
  T get(const char* key, T otherwise) {
    return optional<T>(key).value_or(otherwise);
  }

  template <class T>
  std::optional<T> optional(const char* key) {
    asked_.insert(key);
    return json_.contains(key) && !json_.at(key).is_null() ? std::optional<T>(json_.at(key).get<T>()) : std::nullopt;
  }

  bool is_null(const char* key) const { return json_.contains(key) && json_.at(key).is_null(); }

  // A list of numbers, or the one that stands for it.
  template <class T = double>
  std::vector<T> numbers(const char* key, std::vector<T> otherwise = {}) {
    asked_.insert(key);
    if (!json_.contains(key) || json_.at(key).is_null()) return otherwise;
    return json_.at(key).is_array() ? json_.at(key).get<std::vector<T>>() : std::vector<T>{json_.at(key).get<T>()};
  }

  // A text that names a value; throws std::out_of_range if none has this name.
  template <class T>
  T choice(const char* key, T otherwise, const std::map<std::string, T>& values) {
    const auto text = optional<std::string>(key);
    return text ? values.at(*text) : otherwise;
  }

  void expect_all_asked() const {
    for (const auto& [key, value] : json_.items()) EXPECT_TRUE(asked_.contains(key)) << key << " was not asked for";
  }

 private:
  Json json_;
  std::set<std::string> asked_;
};

using Builder = std::function<Metric(Arguments&)>;

template <class M>
Builder plain() {
  return [](Arguments&) { return M(); };
}

template <class M, class Options>
Builder thresholded() {
  return [](Arguments& a) { return M(Options{.thresholds = a.numbers("thresholds", {0.5})}); };
}

template <class M, class Options>
Builder rate() {
  return [](Arguments& a) {
    return M(Options{.thresholds = a.numbers("thresholds"),
                     .top_k = a.optional<int64_t>("top_k"),
                     .class_id = a.optional<int64_t>("class_id")});
  };
}

template <class Options>
Options at_options(Arguments& a, double Options::*demand, const char* key) {
  Options options{.num_thresholds = a.get<int64_t>("num_thresholds", 200), .class_id = a.optional<int64_t>("class_id")};
  options.*demand = a.get(key, 0.0);
  return options;
}

template <class M, class Options>
Builder along_axis() {
  return [](Arguments& a) { return M(Options{.axis = a.get<int64_t>("axis", -1)}); };
}

metrics::Average average(Arguments& a) {
  using metrics::Average;
  return a.choice("average", Average::none,
                  {{"micro", Average::micro}, {"macro", Average::macro}, {"weighted", Average::weighted}});
}

at::ScalarType counts_dtype(Arguments& a) {
  return a.choice("dtype", at::kInt, {{"int", at::kInt}, {"int32", at::kInt}, {"float32", at::kFloat}});
}

Metric auc(Arguments& a) {
  using metrics::AUCCurve, metrics::AUCSummationMethod;
  return metrics::AUC({.num_thresholds = a.get<int64_t>("num_thresholds", 200),
                       .curve = a.choice("curve", AUCCurve::roc,
                                         {{"ROC", AUCCurve::roc}, {"PR", AUCCurve::pr}, {"PRGAIN", AUCCurve::pr_gain}}),
                       .summation_method = a.choice("summation_method", AUCSummationMethod::interpolation,
                                                    {{"interpolation", AUCSummationMethod::interpolation},
                                                     {"majoring", AUCSummationMethod::majoring},
                                                     {"minoring", AUCSummationMethod::minoring}}),
                       .thresholds = a.numbers("thresholds"),
                       .multi_label = a.get("multi_label", false),
                       .num_labels = a.optional<int64_t>("num_labels"),
                       .label_weights = a.numbers("label_weights"),
                       .from_logits = a.get("from_logits", false)});
}

Metric r2_score(Arguments& a) {
  using metrics::ClassAggregation;
  const auto otherwise = a.is_null("class_aggregation") ? ClassAggregation::none : ClassAggregation::uniform_average;
  return metrics::R2Score(
      {.class_aggregation = a.choice("class_aggregation", otherwise,
                                     {{"uniform_average", ClassAggregation::uniform_average},
                                      {"variance_weighted_average", ClassAggregation::variance_weighted_average}}),
       .num_regressors = a.get<int64_t>("num_regressors", 0)});
}

void add_confusion_metrics(std::map<std::string, Builder>& builders) {
  using namespace metrics;
  builders["TruePositives"] = thresholded<TruePositives, ConfusionCountOptions>();
  builders["TrueNegatives"] = thresholded<TrueNegatives, ConfusionCountOptions>();
  builders["FalsePositives"] = thresholded<FalsePositives, ConfusionCountOptions>();
  builders["FalseNegatives"] = thresholded<FalseNegatives, ConfusionCountOptions>();
  builders["Precision"] = rate<Precision, PrecisionOptions>();
  builders["Recall"] = rate<Recall, RecallOptions>();
  builders["AUC"] = auc;
  builders["PrecisionAtRecall"] = [](Arguments& a) {
    return PrecisionAtRecall(at_options(a, &PrecisionAtRecallOptions::recall, "recall"));
  };
  builders["RecallAtPrecision"] = [](Arguments& a) {
    return RecallAtPrecision(at_options(a, &RecallAtPrecisionOptions::precision, "precision"));
  };
  builders["SensitivityAtSpecificity"] = [](Arguments& a) {
    return SensitivityAtSpecificity(at_options(a, &SensitivityAtSpecificityOptions::specificity, "specificity"));
  };
  builders["SpecificityAtSensitivity"] = [](Arguments& a) {
    return SpecificityAtSensitivity(at_options(a, &SpecificityAtSensitivityOptions::sensitivity, "sensitivity"));
  };
  builders["F1Score"] = [](Arguments& a) {
    return F1Score({.average = average(a), .threshold = a.optional<double>("threshold")});
  };
  builders["FBetaScore"] = [](Arguments& a) {
    return FBetaScore(
        {.average = average(a), .beta = a.get("beta", 1.0), .threshold = a.optional<double>("threshold")});
  };
}

void add_iou_metrics(std::map<std::string, Builder>& builders) {
  using namespace metrics;
  builders["IoU"] = [](Arguments& a) {
    return IoU({.num_classes = a.get<int64_t>("num_classes", 0),
                .target_class_ids = a.numbers<int64_t>("target_class_ids"),
                .ignore_class = a.optional<int64_t>("ignore_class"),
                .sparse_y_true = a.get("sparse_y_true", true),
                .axis = a.get<int64_t>("axis", -1),
                .sparse_y_pred = a.get("sparse_y_pred", true),
                .dtype = counts_dtype(a)});
  };
  builders["BinaryIoU"] = [](Arguments& a) {
    return BinaryIoU({.target_class_ids = a.numbers<int64_t>("target_class_ids", {0, 1}),
                      .threshold = a.get("threshold", 0.5),
                      .dtype = counts_dtype(a)});
  };
  builders["MeanIoU"] = [](Arguments& a) {
    return MeanIoU({.num_classes = a.get<int64_t>("num_classes", 0),
                    .ignore_class = a.optional<int64_t>("ignore_class"),
                    .sparse_y_true = a.get("sparse_y_true", true),
                    .axis = a.get<int64_t>("axis", -1),
                    .sparse_y_pred = a.get("sparse_y_pred", true),
                    .dtype = counts_dtype(a)});
  };
  builders["OneHotIoU"] = [](Arguments& a) {
    return OneHotIoU({.num_classes = a.get<int64_t>("num_classes", 0),
                      .target_class_ids = a.numbers<int64_t>("target_class_ids"),
                      .ignore_class = a.optional<int64_t>("ignore_class"),
                      .sparse_y_pred = a.get("sparse_y_pred", false),
                      .axis = a.get<int64_t>("axis", -1),
                      .dtype = counts_dtype(a)});
  };
  builders["OneHotMeanIoU"] = [](Arguments& a) {
    return OneHotMeanIoU({.num_classes = a.get<int64_t>("num_classes", 0),
                          .ignore_class = a.optional<int64_t>("ignore_class"),
                          .sparse_y_pred = a.get("sparse_y_pred", false),
                          .axis = a.get<int64_t>("axis", -1),
                          .dtype = counts_dtype(a)});
  };
}

void add_means(std::map<std::string, Builder>& builders) {
  using namespace metrics;
  builders["Mean"] = plain<Mean>();
  builders["Sum"] = plain<Sum>();
  builders["MeanSquaredError"] = plain<MeanSquaredError>();
  builders["RootMeanSquaredError"] = plain<RootMeanSquaredError>();
  builders["MeanAbsoluteError"] = plain<MeanAbsoluteError>();
  builders["MeanAbsolutePercentageError"] = plain<MeanAbsolutePercentageError>();
  builders["MeanSquaredLogarithmicError"] = plain<MeanSquaredLogarithmicError>();
  builders["LogCoshError"] = plain<LogCoshError>();
  builders["CosineSimilarity"] = along_axis<CosineSimilarity, CosineSimilarityOptions>();
  builders["PearsonCorrelation"] = along_axis<PearsonCorrelation, PearsonCorrelationOptions>();
  builders["ConcordanceCorrelation"] = along_axis<ConcordanceCorrelation, ConcordanceCorrelationOptions>();
  builders["R2Score"] = r2_score;
  builders["Hinge"] = plain<Hinge>();
  builders["SquaredHinge"] = plain<SquaredHinge>();
  builders["CategoricalHinge"] = plain<CategoricalHinge>();
  builders["KLDivergence"] = plain<KLDivergence>();
  builders["Poisson"] = plain<Poisson>();
  builders["BinaryCrossentropy"] = [](Arguments& a) {
    return BinaryCrossentropy(
        {.from_logits = a.get("from_logits", false), .label_smoothing = a.get("label_smoothing", 0.0)});
  };
  builders["CategoricalCrossentropy"] = [](Arguments& a) {
    return CategoricalCrossentropy({.from_logits = a.get("from_logits", false),
                                    .label_smoothing = a.get("label_smoothing", 0.0),
                                    .axis = a.get<int64_t>("axis", -1)});
  };
  builders["SparseCategoricalCrossentropy"] = [](Arguments& a) {
    return SparseCategoricalCrossentropy(
        {.from_logits = a.get("from_logits", false), .ignore_class = a.optional<int64_t>("ignore_class")});
  };
}

void add_accuracies(std::map<std::string, Builder>& builders) {
  using namespace metrics;
  builders["Accuracy"] = plain<Accuracy>();
  builders["BinaryAccuracy"] = [](Arguments& a) { return BinaryAccuracy({.threshold = a.get("threshold", 0.5)}); };
  builders["CategoricalAccuracy"] = plain<CategoricalAccuracy>();
  builders["SparseCategoricalAccuracy"] = plain<SparseCategoricalAccuracy>();
  builders["TopKCategoricalAccuracy"] = [](Arguments& a) {
    return TopKCategoricalAccuracy({.k = a.get<int64_t>("k", 5)});
  };
  builders["SparseTopKCategoricalAccuracy"] = [](Arguments& a) {
    return SparseTopKCategoricalAccuracy(
        {.k = a.get<int64_t>("k", 5), .from_sorted_ids = a.get("from_sorted_ids", false)});
  };
}

Metric metric(const Json& test) {
  static const std::map<std::string, Builder> builders = [] {
    std::map<std::string, Builder> all;
    add_confusion_metrics(all);
    add_iou_metrics(all);
    add_means(all);
    add_accuracies(all);
    return all;
  }();
  Arguments arguments(test.value("arguments", Json::object()));
  const Metric built = builders.at(test.at("metric"))(arguments);
  arguments.expect_all_asked();
  return built;
}

Tensor optional_tensor(const Json& json, const char* key) {
  return json.contains(key) ? oracle::tensor(json.at(key)) : Tensor();
}

bool gives(const Metric& metric, const Json& recorded) {
  return oracle::equals(metric.result().to(oracle::tensor(recorded).scalar_type()), recorded);
}

void update(const Metric& metric, const Json& json) {
  metric.update_state(oracle::tensor(json.at("y_true")), oracle::tensor(json.at("y_pred")),
                      optional_tensor(json, "sample_weight"));
}

bool run_metric(const Json& test) {
  const Metric tested = metric(test);
  bool holds = true;
  for (size_t i = 0; i < test.at("updates").size(); ++i) {
    update(tested, test.at("updates")[i]);
    if (test.contains("expected_after_each")) holds = holds && gives(tested, test.at("expected_after_each")[i]);
  }
  return holds;
}

// Runs `update_part(i)` for each of the parts that were given to replicas, on as many replicas and on 1, 2 and 4.
void run_on_replicas(size_t num_parts, const std::function<void(size_t)>& update_part, int replicas) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
  strategy.run([&] {
    const auto replica = static_cast<size_t>(get_replica_context().replica_id_in_sync_group());
    for (size_t part = replica; part < num_parts; part += static_cast<size_t>(replicas)) update_part(part);
  });
}

bool run_replicated(const Json& test) {
  const Json& parts = test.at("per_replica");
  bool holds = true;
  for (const int replicas : {test.at("replicas").get<int>(), 1, 2, 4}) {
    const Metric tested = metric(test);
    run_on_replicas(
        parts.size(), [&](size_t part) { update(tested, parts[part]); }, replicas);
    holds = holds && gives(tested, test.at("expected"));
  }
  return holds;
}

bool run_mean(const Json& test) {
  const Metric tested = metric(test);
  const Json& expected = test.at("expected_initial_then_after_each");
  bool holds = gives(tested, expected[0]);
  for (size_t i = 0; i < test.at("updates").size(); ++i) {
    const Json& step = test.at("updates")[i];
    tested.update_state(oracle::tensor(step.at("values")), {}, optional_tensor(step, "sample_weight"));
    holds = holds && gives(tested, expected[i + 1]);
  }
  return holds;
}

bool run_mean_replicated(const Json& test) {
  const Json& values = test.at("values");
  bool holds = true;
  for (const int replicas : {test.at("replicas").get<int>(), 1, 2, 4}) {
    const metrics::Mean mean;
    const metrics::Sum sum;
    const auto update_part = [&](size_t part) {
      mean.update_state(oracle::tensor(values[part]));
      sum.update_state(oracle::tensor(values[part]));
    };
    run_on_replicas(values.size(), update_part, replicas);
    holds = holds && gives(mean, test.at("expected").at("mean")) && gives(sum, test.at("expected").at("sum"));
  }
  return holds;
}

optimizers::LearningRate schedule(const Json& test) {
  namespace schedules = optimizers::schedules;
  const std::string name = test.at("schedule");
  const Json& a = test.at("arguments");
  if (name == "PiecewiseConstantDecay")
    return schedules::PiecewiseConstantDecay({.boundaries = a.at("boundaries"), .values = a.at("values")});
  const double initial = a.at("initial_learning_rate");
  if (name == "ExponentialDecay")
    return schedules::ExponentialDecay({.initial_learning_rate = initial,
                                        .decay_steps = a.at("decay_steps"),
                                        .decay_rate = a.at("decay_rate"),
                                        .staircase = a.value("staircase", false)});
  if (name == "InverseTimeDecay")
    return schedules::InverseTimeDecay({.initial_learning_rate = initial,
                                        .decay_steps = a.at("decay_steps"),
                                        .decay_rate = a.at("decay_rate"),
                                        .staircase = a.value("staircase", false)});
  if (name == "PolynomialDecay")
    return schedules::PolynomialDecay({.initial_learning_rate = initial,
                                       .decay_steps = a.at("decay_steps"),
                                       .end_learning_rate = a.value("end_learning_rate", 0.0001),
                                       .power = a.value("power", 1.0),
                                       .cycle = a.value("cycle", false)});
  if (name == "CosineDecay") {
    schedules::CosineDecayOptions options{.initial_learning_rate = initial,
                                          .decay_steps = a.at("decay_steps"),
                                          .alpha = a.value("alpha", 0.0),
                                          .warmup_steps = a.value("warmup_steps", int64_t{0})};
    if (a.contains("warmup_target")) options.warmup_target = a.at("warmup_target").get<double>();
    return schedules::CosineDecay(options);
  }
  if (name == "CosineDecayRestarts")
    return schedules::CosineDecayRestarts({.initial_learning_rate = initial,
                                           .first_decay_steps = a.at("first_decay_steps"),
                                           .t_mul = a.value("t_mul", 2.0),
                                           .m_mul = a.value("m_mul", 1.0),
                                           .alpha = a.value("alpha", 0.0)});
  throw std::out_of_range("schedule " + name);
}

bool run_schedule(const Json& test) {
  const optimizers::LearningRate rate = schedule(test);
  bool holds = true;
  for (size_t i = 0; i < test.at("steps").size(); ++i) {
    const double expected = test.at("expected")[i];
    holds = holds && std::abs(rate(test.at("steps")[i]) - expected) <= 1e-5 + 1e-5 * std::abs(expected);
  }
  return holds;
}

bool run_invalid_schedule(const Json& test) {
  schedule(test)(test.at("step"));
  return false;
}

TEST(MetricsOracle, MetricsAndSchedulesGiveKerasNumbers) {
  const std::map<std::string, std::function<bool(const Json&)>> kinds{
      {"metric", run_metric},     {"metric_replicated", run_replicated},
      {"mean_metric", run_mean},  {"mean_replicated", run_mean_replicated},
      {"schedule", run_schedule}, {"schedule_invalid", run_invalid_schedule}};
  oracle::run_cases("metrics.json", [&](const Json& test) {
    try {
      return kinds.at(test.at("kind"))(test);
    } catch (const std::out_of_range& unknown) {
      ADD_FAILURE() << "not known here: " << unknown.what();
      return false;
    }
  });
}

}  // namespace
}  // namespace tutti::keras
