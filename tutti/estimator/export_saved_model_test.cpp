#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/estimator/dnn.h"
#include "tutti/estimator/export_versions.h"
#include "tutti/estimator/linear.h"
#include "tutti/estimator/log.h"
#include "tutti/estimator/model_call.h"
#include "tutti/estimator/multi_head.h"
#include "tutti/estimator/train_and_evaluate.h"
#include "tutti/export/saved_model.h"
#include "tutti/feature_column/make_parse_example_spec.h"
#include "tutti/feature_column/numeric_column.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::estimator {
namespace {

using saved_model::TensorSpec;
using saved_model::TextSpec;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class SilentRuns {
 public:
  SilentRuns() : outer_(set_log_sink([](const std::string&) {})) {}
  ~SilentRuns() { set_log_sink(outer_); }

 private:
  LogSink outer_;
};

InputFn pairs() {
  return [] {
    const Tensor x = at::arange(16, at::kFloat).view({8, 2}) / 8;
    return data::from_tensor_slices(x, x.sum(1, true)).repeat().batch(4);
  };
}

// Has what training changes besides weights, and random numbers.
EstimatorSpec noisy_model(const Tensor& features, const Tensor& labels, ModeKeys mode) {
  const keras::layers::CallOptions options{.training = mode == ModeKeys::train};
  Tensor x = keras::layers::BatchNormalization()(keras::layers::Dense({.units = 4})(features), options);
  x = keras::layers::Dense({.units = 1})(keras::layers::Dropout({.rate = 0.5})(x, options));
  if (mode == ModeKeys::predict) return EstimatorSpec({.mode = mode, .predictions = {{"y", x}}});
  const Tensor loss = at::mse_loss(x, labels);
  return EstimatorSpec(
      {.mode = mode, .loss = loss, .train_op = keras::optimizers::SGD().minimize(loss, get_global_step())});
}

ServingInputReceiverFn raw_receiver() {
  return build_raw_serving_input_receiver_fn(TensorSpec{.name = "x", .shape = {kUnknown, 2}});
}

TEST(EstimatorExport, ServesTheCheckpointThatItIsTold) {
  const SilentRuns silent;
  const TemporaryFolder folder;
  const Estimator estimator(noisy_model,
                            {.model_dir = folder / "model", .config = RunConfig({.save_checkpoints_steps = 1})});
  estimator.train(pairs(), {.steps = 2});
  const auto newest = estimator.export_saved_model(folder / "export", raw_receiver(), {.torchscript = true});
  const auto first =
      estimator.export_saved_model(folder / "export", raw_receiver(), {.checkpoint_path = folder / "model" / "ckpt-1"});
  EXPECT_LT(std::stoll(newest.filename()), std::stoll(first.filename()));
  EXPECT_TRUE(std::filesystem::exists(newest / "serving_default.pt"));
  const auto model = saved_model::load(newest);
  EXPECT_TRUE(at::equal(model.variables().at("dense/kernel"), estimator.get_variable_value("dense/kernel")));
  const Tensor x = at::rand({7, 2});
  const auto served = model.signature("serving_default")({{"x", x}}).at("y").tensor();
  const auto predicted =
      estimator.predict([&] { return data::from_tensor_slices(x).batch(7); }, {.yield_single_examples = false});
  EXPECT_TRUE(at::equal(served, (*predicted.begin()).at("y").tensor()));
  EXPECT_FALSE(
      at::equal(saved_model::load(first).variables().at("dense/kernel"), model.variables().at("dense/kernel")));
}

TEST(EstimatorExport, WritesOnnxAsItIsTold) {
  const SilentRuns silent;
  const TemporaryFolder folder;
  const Estimator estimator(noisy_model, {.model_dir = folder / "model"});
  estimator.train(pairs(), {.steps = 1});
  const auto onnx_of = [&](std::optional<saved_model::OnnxOptions> options) {
    const auto exported = estimator.export_saved_model(folder / "export", raw_receiver(), {.onnx = options});
    EXPECT_TRUE(saved_model::load(exported).signature("serving_default")(at::rand({3, 2})).contains("y"));
    std::ifstream file(exported / "serving_default.onnx", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(onnx_of({}), "");
  EXPECT_THAT(onnx_of(saved_model::OnnxOptions{}), HasSubstr("dense/kernel"));
  EXPECT_THAT(onnx_of(saved_model::OnnxOptions{.external_weights_above = 0}), HasSubstr("variables.safetensors"));
}

TEST(EstimatorExport, ExportersWriteWhatTheirOptionsSay) {
  const SilentRuns silent;
  const TemporaryFolder folder;
  const Estimator estimator(noisy_model, {.model_dir = folder / "model"});
  estimator.train(pairs(), {.steps = 1});
  const ExportOptions options{.torchscript = true, .onnx = saved_model::OnnxOptions{}, .pt2 = true};
  const Evaluated evaluated{.export_path = folder / "export",
                            .checkpoint_path = *estimator.latest_checkpoint(),
                            .eval_result = {{"loss", 1}, {"global_step", 1}},
                            .is_the_final_export = true};
  const Exporters exporters{std::make_shared<FinalExporter>(FinalExporterOptions{
                                .name = "f", .serving_input_receiver_fn = raw_receiver(), .export_options = options}),
                            std::make_shared<LatestExporter>(LatestExporterOptions{
                                .name = "l", .serving_input_receiver_fn = raw_receiver(), .export_options = options}),
                            std::make_shared<BestExporter>(BestExporterOptions{
                                .name = "b", .serving_input_receiver_fn = raw_receiver(), .export_options = options})};
  for (const auto& exporter : exporters) {
    const auto exported = exporter->export_model(estimator, evaluated);
    ASSERT_TRUE(exported);
    for (const char* file : {"serving_default.pt", "serving_default.onnx", "serving_default.pt2"})
      EXPECT_TRUE(std::filesystem::exists(*exported / file)) << exporter->name() << ' ' << file;
  }
  EXPECT_THAT(error_of([&] {
                const FinalExporter named({.name = "f",
                                           .serving_input_receiver_fn = raw_receiver(),
                                           .export_options = {.checkpoint_path = "model-1"}});
              }),
              HasSubstr("exporter 'f': export_options name the checkpoint 'model-1'"));
}

TEST(EstimatorExport, LeavesTheTrainingAsItWouldBe) {
  const SilentRuns silent;
  const TemporaryFolder folder;
  const auto kernel_of = [&](const char* name, Exporters exporters) {
    const RunConfig config({.tf_random_seed = 5, .save_checkpoints_steps = 2});
    const Estimator estimator(noisy_model, {.model_dir = folder / name, .config = config});
    const auto [metrics, exports] = train_and_evaluate(
        estimator, TrainSpec({.input_fn = pairs(), .max_steps = 6}),
        EvalSpec({.input_fn = pairs(), .steps = 1, .exporters = std::move(exporters), .throttle_secs = 0}));
    return estimator.get_variable_value("dense/kernel");
  };
  const auto latest = std::make_shared<LatestExporter>(LatestExporterOptions{"latest", raw_receiver(), 2});
  EXPECT_TRUE(at::equal(kernel_of("with", {latest}), kernel_of("without", {})));
  EXPECT_EQ(export_versions(folder / "with" / "export" / "latest").size(), 2);
}

TEST(EstimatorExport, ReadsNumbersAndBucketsOfExamples) {
  const SilentRuns silent;
  const TemporaryFolder folder;
  const auto age = feature_column::numeric_column("age", {.default_value = {30}});
  const std::vector<feature_column::FeatureColumn> columns{age, feature_column::bucketized_column(age, {20, 40, 60})};
  const auto input_fn = [] {
    const Tensor x = at::rand({64, 1}) * 80;
    return data::from_tensor_slices(data::Columns{{"age", x}}, (x > 40).to(at::kLong)).batch(16);
  };
  const auto receiver = build_parsing_serving_input_receiver_fn(feature_column::make_parse_example_spec(columns));
  const auto check = [&](const Estimator& estimator) {
    estimator.train(input_fn);
    const auto model = saved_model::load(estimator.export_saved_model(folder / "export", receiver));
    EXPECT_THAT(model.signature_names(), ElementsAre("classification", "predict", "regression", "serving_default"));
    const Strings examples({data::Example{{{"age", data::FloatList{55}}}}.serialize(), data::Example().serialize()},
                           {2});
    const auto served = model.signature("predict")(examples);
    const auto predicted = estimator.predict(
        [] {
          return data::from_tensor_slices(data::Columns{{"age", at::tensor({{55.0F}, {30.0F}})}}).batch(2);
        },
        {.yield_single_examples = false});
    const data::Columns expected = *predicted.begin();
    EXPECT_TRUE(at::allclose(served.at("logits").tensor(), expected.at("logits").tensor()));
    EXPECT_EQ(served.at("classes").text(), expected.at("classes").strings());
  };
  check(LinearClassifier({.feature_columns = columns, .model_dir = folder / "linear", .label_vocabulary = {}}));
  check(DNNClassifier({.hidden_units = {3}, .feature_columns = columns, .model_dir = folder / "deep"}));
}

TEST(EstimatorExport, RefusesMistakesByName) {
  const SilentRuns silent;
  const TemporaryFolder folder;
  const Estimator estimator(noisy_model, {.model_dir = folder / "model"});
  const auto error = [&](const Estimator& of, const ServingInputReceiverFn& receiver) {
    return error_of([&] { of.export_saved_model(folder / "export", receiver); });
  };
  EXPECT_THAT(error(estimator, raw_receiver()), StartsWith("not_found"));
  EXPECT_THAT(error(estimator, {}), HasSubstr("no serving_input_receiver_fn"));
  estimator.train(pairs(), {.steps = 1});
  EXPECT_THAT(error(estimator, [] { return ServingInputReceiver(); }), HasSubstr("a receiver without inputs"));
  EXPECT_THAT(error_of([] { build_parsing_serving_input_receiver_fn({}); }), HasSubstr("feature_spec is empty"));
  EXPECT_THAT(error_of([] { build_raw_serving_input_receiver_fn(std::vector<saved_model::Spec>{TensorSpec{}}); }),
              HasSubstr("a feature has no name"));
  const auto regresses = [](const Tensor& features, ModeKeys mode) {
    const Tensor y = keras::layers::Dense({.units = 1})(features);
    return EstimatorSpec({.mode = mode,
                          .predictions = {{"y", y}},
                          .loss = y.sum(),
                          .train_op = keras::optimizers::SGD().minimize(y.sum(), get_global_step()),
                          .export_outputs = {{"serving_default", RegressionOutput{y}}}});
  };
  const Estimator regressor(regresses, {.model_dir = folder / "regressor"});
  regressor.train([] { return data::from_tensor_slices(at::rand({4, 2})).batch(4); });
  EXPECT_THAT(error(regressor, raw_receiver()), HasSubstr("nothing can be served"));
  EXPECT_TRUE(export_versions(folder / "export").empty());
  EXPECT_THAT(error_of([] {
                EstimatorSpec({.mode = ModeKeys::predict,
                               .predictions = {{"y", at::rand({2})}},
                               .export_outputs = {{"a", RegressionOutput{}}}});
              }),
              HasSubstr("'a' is a RegressionOutput without a value"));
}

Evaluated evaluated(const Estimator& estimator, const std::filesystem::path& place, double loss, double step) {
  return {.export_path = place,
          .checkpoint_path = *estimator.latest_checkpoint(),
          .eval_result = {{"loss", loss}, {"global_step", step}}};
}

TEST(BestExporter, GoesOnWithTheBestOfAnEarlierRun) {
  const SilentRuns silent;
  const TemporaryFolder folder;
  const Estimator estimator(noisy_model, {.model_dir = folder / "model"});
  estimator.train(pairs(), {.steps = 1});
  const double first = estimator.evaluate(pairs(), {.steps = 1}).at("loss");  // in the event files, step 1
  const BestExporterOptions options{.serving_input_receiver_fn = raw_receiver()};
  const auto place = folder / "export";
  {
    BestExporter before(options);
    EXPECT_TRUE(before.export_model(estimator, evaluated(estimator, place, first, 1)));
  }
  EXPECT_FALSE(BestExporter(options).export_model(estimator, evaluated(estimator, place, first + 1, 2)));
  EXPECT_TRUE(BestExporter(options).export_model(estimator, evaluated(estimator, place, first / 2, 2)));
  // The evaluation at hand is in the files before it is exported, and does not count as an earlier one.
  EXPECT_TRUE(BestExporter(options).export_model(estimator, evaluated(estimator, place, first, 1)));
  // A run that ended before its first export has exported nothing.
  EXPECT_TRUE(BestExporter(options).export_model(estimator, evaluated(estimator, folder / "none", first + 1, 2)));
}

TEST(Exporter, RefusesMistakesByName) {
  EXPECT_THAT(error_of([] { FinalExporter({.name = "", .serving_input_receiver_fn = raw_receiver()}); }),
              HasSubstr("the name is that of a folder"));
  EXPECT_THAT(error_of([] { FinalExporter({.name = "a/b", .serving_input_receiver_fn = raw_receiver()}); }),
              HasSubstr("'a/b'"));
  EXPECT_THAT(error_of([] { LatestExporter({.name = "a"}); }), HasSubstr("no serving_input_receiver_fn"));
  EXPECT_THAT(error_of([] {
                loss_smaller({{"loss", 1}}, {{"mae", 1}});
              }),
              HasSubstr("the current evaluation has no loss"));
}

TEST(ExportVersions, AreFoldersNamedByNumbers) {
  const TemporaryFolder folder;
  for (const char* const name : {"7", "12", "003", "-4", "99999999999999999999", "temp-5", "5x"})
    std::filesystem::create_directories(folder / name);
  EXPECT_THAT(export_versions(folder.path()), ElementsAre(7, 12));
  remove_old_exports(folder.path(), 1);
  EXPECT_THAT(export_versions(folder.path()), ElementsAre(12));
  EXPECT_TRUE(std::filesystem::exists(folder / "temp-5"));
  std::filesystem::create_directories(folder / "9000000000000");
  EXPECT_EQ(next_export_version(folder.path()).filename(), "9000000000001");
}

TEST(MultiHead, AddsItsHeadsUnderTheirNames) {
  const Head head = multi_head({{"price", regression_head()}, {"kind", multi_class_head({.n_classes = 3})}},
                               {.head_weights = {1, 2}});
  EXPECT_EQ(head.logits_dimension(), 4);
  const Tensor logits = at::rand({5, 4});
  const Tensor price = at::rand({5, 1}), kind = at::tensor({0, 2, 1, 1, 0}, at::kLong);
  const data::Columns labels{{"price", price}, {"kind", kind}};
  const HeadLoss found = head.loss({}, labels, logits);
  const HeadLoss first = regression_head().loss({}, price, logits.slice(1, 0, 1));
  const HeadLoss second = multi_class_head({.n_classes = 3}).loss({}, kind, logits.slice(1, 1, 4));
  EXPECT_TRUE(at::allclose(found.loss, first.loss + 2 * second.loss));
  EXPECT_TRUE(found.metrics.contains("average_loss/price") && found.metrics.contains("accuracy/kind"));
  EXPECT_TRUE(found.metrics.contains("loss/kind"));
  const EstimatorSpec spec = head.create_estimator_spec({.mode = ModeKeys::predict, .logits = logits});
  EXPECT_TRUE(at::equal(spec->predictions.at("price/predictions").tensor(), logits.slice(1, 0, 1)));
  std::vector<std::string> names;
  for (const auto& [name, output] : spec->export_outputs) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("kind", "kind.classification", "kind.predict", "predict", "price", "price.predict",
                                 "price.regression", "serving_default"));
  EXPECT_TRUE(std::holds_alternative<RegressionOutput>(spec->export_outputs.at("serving_default")));
  EXPECT_THAT(error_of([&] { head.loss({}, price, logits); }), HasSubstr("labels are no columns"));
  EXPECT_THAT(error_of([] {
                multi_head({{"a", regression_head()}, {"a", regression_head()}});
              }),
              HasSubstr("a name of its own"));
  EXPECT_THAT(error_of([] {
                multi_head({{"a", regression_head()}}, {.head_weights = {1, 2}});
              }),
              HasSubstr("2 head_weights, and 1 heads"));
}

}  // namespace
}  // namespace tutti::estimator
