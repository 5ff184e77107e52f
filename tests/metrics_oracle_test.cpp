// What Keras returned for metrics and learning-rate schedules (tests/oracle/metrics.json), case by case.
#include <ATen/ops/allclose.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>

#include "tests/support/oracle.h"
#include "tutti/core/error.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/crossentropy.h"
#include "tutti/keras/metrics/mean.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/learning_rate.h"
#include "tutti/keras/optimizers/schedules.h"

namespace tutti::keras {
namespace {

using oracle::Json;

struct NotSupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

metrics::Metric metric(const Json& test) {
  const std::string name = test.at("metric");
  const Json arguments = test.value("arguments", Json::object());
  if (name == "Mean") return metrics::Mean();
  if (name == "Sum") return metrics::Sum();
  if (name == "Accuracy") return metrics::Accuracy();
  if (name == "BinaryAccuracy") return metrics::BinaryAccuracy({.threshold = arguments.value("threshold", 0.5)});
  if (name == "CategoricalAccuracy") return metrics::CategoricalAccuracy();
  if (name == "SparseCategoricalAccuracy") return metrics::SparseCategoricalAccuracy();
  if (name == "MeanSquaredError") return metrics::MeanSquaredError();
  if (name == "MeanAbsoluteError") return metrics::MeanAbsoluteError();
  const bool from_logits = arguments.value("from_logits", false);
  const double label_smoothing = arguments.value("label_smoothing", 0.0);
  if (name == "BinaryCrossentropy")
    return metrics::BinaryCrossentropy({.from_logits = from_logits, .label_smoothing = label_smoothing});
  if (name == "CategoricalCrossentropy")
    return metrics::CategoricalCrossentropy({.from_logits = from_logits, .label_smoothing = label_smoothing});
  if (name == "SparseCategoricalCrossentropy")
    return metrics::SparseCategoricalCrossentropy({.from_logits = from_logits});
  throw NotSupported("metric " + name);
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
  throw NotSupported("schedule " + name);
}

Tensor optional_tensor(const Json& json, const char* key) {
  return json.contains(key) ? oracle::tensor(json.at(key)) : Tensor();
}

void expect_result(const metrics::Metric& metric, const Json& recorded) {
  EXPECT_TRUE(oracle::equals(metric.result().to(at::kFloat), recorded)) << metric.result() << " is not " << recorded;
}

void update(const metrics::Metric& metric, const Json& json) {
  metric.update_state(oracle::tensor(json.at("y_true")), oracle::tensor(json.at("y_pred")),
                      optional_tensor(json, "sample_weight"));
}

void run_metric(const Json& test) {
  const metrics::Metric tested = metric(test);
  const Json& updates = test.at("updates");
  if (test.contains("error")) {
    EXPECT_THROW(update(tested, updates[0]), Error);
    return;
  }
  for (size_t i = 0; i < updates.size(); ++i) {
    update(tested, updates[i]);
    expect_result(tested, test.at("expected_after_each")[i]);
  }
}

// Every replica computes its contribution, then all are added.
void run_replicated(const Json& test) {
  const metrics::Metric tested = metric(test);
  std::vector<Tensor> contributions;
  for (const Json& json : test.at("per_replica"))
    contributions.push_back(tested.contribution(oracle::tensor(json.at("y_true")), oracle::tensor(json.at("y_pred")),
                                                optional_tensor(json, "sample_weight")));
  for (const Tensor& contribution : contributions) tested.add(contribution);
  expect_result(tested, test.at("expected"));
}

void run_mean(const Json& test) {
  const metrics::Metric tested = metric(test);
  const Json& expected = test.at("expected_initial_then_after_each");
  expect_result(tested, expected[0]);
  for (size_t i = 0; i < test.at("updates").size(); ++i) {
    const Json& step = test.at("updates")[i];
    tested.update_state(oracle::tensor(step.at("values")), {}, optional_tensor(step, "sample_weight"));
    expect_result(tested, expected[i + 1]);
  }
}

void run_mean_replicated(const Json& test) {
  const metrics::Mean mean;
  const metrics::Sum sum;
  for (const Json& values : test.at("values")) {
    mean.update_state(oracle::tensor(values));
    sum.update_state(oracle::tensor(values));
  }
  expect_result(mean, test.at("expected").at("mean"));
  expect_result(sum, test.at("expected").at("sum"));
}

void run_schedule(const Json& test) {
  const optimizers::LearningRate rate = schedule(test);
  for (size_t i = 0; i < test.at("steps").size(); ++i) {
    const double expected = test.at("expected")[i];
    EXPECT_NEAR(rate(test.at("steps")[i]), expected, 1e-5 + 1e-5 * std::abs(expected))
        << "step " << test.at("steps")[i];
  }
}

void run_invalid_schedule(const Json& test) { EXPECT_THROW(schedule(test)(test.at("step")), Error); }

TEST(MetricsOracle, MetricsAndSchedulesGiveKerasNumbers) {
  const std::map<std::string, std::function<void(const Json&)>> kinds{
      {"metric", run_metric},     {"metric_replicated", run_replicated},
      {"mean_metric", run_mean},  {"mean_replicated", run_mean_replicated},
      {"schedule", run_schedule}, {"schedule_invalid", run_invalid_schedule}};
  int num_run = 0;
  std::map<std::string, int> left_out;
  for (const Json& test : oracle::cases("metrics.json")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    try {
      kinds.at(test.at("kind"))(test);
      ++num_run;
    } catch (const NotSupported& reason) {
      ++left_out[reason.what()];
    }
  }
  std::cout << "metrics.json: " << num_run << " cases run\n";
  for (const auto& [reason, count] : left_out) std::cout << "  not supported yet: " << count << " x " << reason << '\n';
  EXPECT_GT(num_run, 0);
}

}  // namespace
}  // namespace tutti::keras
