#include "tutti/estimator/add_metrics.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"
#include "tutti/estimator/baseline.h"
#include "tutti/estimator/dnn.h"
#include "tutti/estimator/dnn_linear_combined.h"
#include "tutti/estimator/linear.h"
#include "tutti/estimator/log.h"
#include "tutti/estimator/model_call.h"
#include "tutti/feature_column/numeric_column.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::estimator {
namespace {

const feature_column::FeatureColumn& column_x() {
  static const feature_column::FeatureColumn x = feature_column::numeric_column("x");
  return x;
}

InputFn counts() {
  return [] {
    const Tensor x = at::arange(8).to(at::kFloat) / 8;
    return data::from_tensor_slices(data::Columns{{"x", x}}, at::exp(x)).batch(4);
  };
}

class OfHeads : public ::testing::Test {
 protected:
  OfHeads() : outer_(set_log_sink([](const std::string&) {})) {}
  ~OfHeads() override { set_log_sink(outer_); }

  LogSink outer_;
  TemporaryFolder folder_;
};

TEST_F(OfHeads, EvaluationsHaveAddedMetrics) {
  const LinearRegressor regressor({.feature_columns = {column_x()}, .model_dir = folder_ / "model"});
  regressor.train(counts());
  const auto errors = [](const Tensor& labels, const data::Columns& predictions) -> EvalMetrics {
    return {
        {"mae", {keras::metrics::MeanAbsoluteError(), labels.unsqueeze(1), predictions.at("predictions").tensor()}}};
  };
  const Metrics plain = regressor.evaluate(counts()), more = add_metrics(regressor, errors).evaluate(counts());
  EXPECT_EQ(more.size(), plain.size() + 1);
  EXPECT_EQ(more.at("average_loss"), plain.at("average_loss"));
  EXPECT_GT(more.at("mae"), 0);
  // One of a name that is there takes its place, and features may be asked for.
  const auto replaced = [](const Tensor&, const data::Columns&, const data::Columns& features) -> EvalMetrics {
    const Tensor x = features.at("x").tensor();
    return {{"average_loss", {keras::metrics::MeanAbsoluteError(), x, x}}};
  };
  EXPECT_EQ(add_metrics(regressor, replaced).evaluate(counts()).at("average_loss"), 0);
}

TEST_F(OfHeads, EveryModelTakesAHead) {
  const Head head = poisson_regression_head();
  const auto expect_learning = [&](const Estimator& estimator) {
    const double before = estimator.evaluate(counts()).at("loss");
    estimator.train([] { return counts(); }());
    EXPECT_LT(estimator.evaluate(counts()).at("loss"), before);
    for (const auto& prediction : estimator.predict(counts()))
      EXPECT_GT(prediction.at("predictions").tensor().item<float>(), 0);
  };
  expect_learning(LinearEstimator({.head = head, .feature_columns = {column_x()}, .model_dir = folder_ / "linear"}));
  expect_learning(DNNEstimator(
      {.head = head, .hidden_units = {4}, .feature_columns = {column_x()}, .model_dir = folder_ / "deep"}));
  expect_learning(DNNLinearCombinedEstimator({.head = head,
                                              .model_dir = folder_ / "combined",
                                              .linear_feature_columns = {column_x()},
                                              .dnn_feature_columns = {column_x()},
                                              .dnn_hidden_units = {4}}));
  expect_learning(BaselineEstimator({.head = head, .model_dir = folder_ / "baseline"}));
}

TEST_F(OfHeads, SeveralLabelsAreLearntByACannedModel) {
  const DNNEstimator estimator({.head = multi_label_head({.n_classes = 3}),
                                .hidden_units = {4},
                                .feature_columns = {column_x()},
                                .model_dir = folder_ / "model"});
  const auto input = [] {
    return data::from_tensor_slices(data::Columns{{"x", at::ones({4})}}, at::ones({4, 3}, at::kLong)).batch(2);
  };
  estimator.train(input);
  EXPECT_TRUE(estimator.evaluate(input).contains("auc"));
}

struct Counts : SessionRunHook {
  void before_run(RunContext&) override { ++steps; }
  int steps = 0;
};

TEST_F(OfHeads, TheChiefsHooksHearOfItsTraining) {
  const auto of_all = std::make_shared<Counts>(), of_chief = std::make_shared<Counts>();
  const auto model = [=](const data::Columns& features, const Tensor&, ModeKeys mode) {
    const Tensor loss = keras::layers::Dense({.units = 1})(features.at("x").tensor().unsqueeze(1)).mean();
    return EstimatorSpec({.mode = mode,
                          .loss = loss,
                          .train_op = keras::optimizers::SGD().minimize(loss, get_global_step()),
                          .training_hooks = {of_all},
                          .training_chief_hooks = {of_chief}});
  };
  const Estimator estimator(model, {.model_dir = folder_ / "model"});
  estimator.train(counts(), {.max_steps = 2});
  estimator.evaluate(counts());
  EXPECT_EQ(of_chief->steps, of_all->steps);
  EXPECT_EQ(of_chief->steps, 2);
}

TEST(RunConfig, ReplacesWhatIsChanged) {
  const RunConfig config({.model_dir = "a", .tf_random_seed = 3});
  const RunConfig by_steps = config.replace([](RunConfigOptions& options) { options.save_checkpoints_steps = 5; });
  EXPECT_EQ(by_steps->save_checkpoints_steps, 5);
  EXPECT_EQ(by_steps->save_checkpoints_secs, std::nullopt);
  EXPECT_EQ(by_steps->model_dir, "a");
  EXPECT_EQ(config->save_checkpoints_secs, 600);
  const RunConfig by_secs = by_steps.replace([](RunConfigOptions& options) { options.save_checkpoints_secs = 7; });
  EXPECT_EQ(by_secs->save_checkpoints_steps, std::nullopt);
  EXPECT_THROW(config.replace([](RunConfigOptions& options) { options.save_summary_steps = -1; }), Error);
}

}  // namespace
}  // namespace tutti::estimator
