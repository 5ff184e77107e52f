// What goes wrong around an Estimator: hostile inputs, modes of the thread, folders that others write.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/core/log.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/estimator/linear.h"
#include "tutti/estimator/log.h"
#include "tutti/estimator/model_call.h"
#include "tutti/estimator/train_and_evaluate.h"
#include "tutti/feature_column/categorical_column.h"
#include "tutti/feature_column/numeric_column.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::estimator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

EstimatorSpec dense_model(const Tensor& features, const Tensor& labels, ModeKeys mode) {
  const Tensor logits = keras::layers::Dense({.units = 1})(features);
  if (mode == ModeKeys::predict) return EstimatorSpec({.mode = mode, .predictions = {{"logits", logits}}});
  const Tensor loss = at::mse_loss(logits, labels);
  return EstimatorSpec(
      {.mode = mode, .loss = loss, .train_op = keras::optimizers::SGD().minimize(loss, get_global_step())});
}

InputFn pairs(int64_t rows, float value = 1) {
  return [=] { return data::from_tensor_slices(at::full({rows, 2}, value), at::ones({rows, 1})).batch(2); };
}

class EstimatorMistakes : public ::testing::Test {
 protected:
  EstimatorMistakes() : outer_(set_log_sink([](const std::string&) {})) {}
  ~EstimatorMistakes() override { set_log_sink(outer_); }

  Estimator dense(const char* name, const RunConfigOptions& config = {}) const {
    return Estimator(dense_model, {.model_dir = folder_ / name, .config = RunConfig(config)});
  }
  static std::string error_of_prediction(const Estimator& estimator, std::shared_ptr<SessionRunHook> hook) {
    return error_of([&] {
      for (const auto& prediction : estimator.predict(pairs(4), {.hooks = {hook}})) (void)prediction;
    });
  }

  LogSink outer_;
  TemporaryFolder folder_;
};

TEST_F(EstimatorMistakes, NullPointersAreNoHooks) {
  const Estimator estimator = dense("model");
  EXPECT_THAT(error_of([&] { estimator.train(pairs(4), {.hooks = {nullptr}}); }),
              HasSubstr("train: a hook is a null pointer"));
  EXPECT_THAT(error_of([&] { estimator.train(pairs(4), {.saving_listeners = {nullptr}}); }),
              HasSubstr("train: a saving listener is a null pointer"));
  EXPECT_THAT(error_of([&] { estimator.evaluate(pairs(4), {.hooks = {nullptr}}); }), HasSubstr("evaluate: a hook"));
  EXPECT_THAT(error_of([&] { estimator.predict(pairs(4), {.hooks = {nullptr}}); }), HasSubstr("predict: a hook"));
  EXPECT_THAT(error_of([&] { TrainSpec({.input_fn = pairs(4), .hooks = {nullptr}}); }), HasSubstr("TrainSpec: a hook"));
  EXPECT_THAT(error_of([&] { EvalSpec({.input_fn = pairs(4), .hooks = {nullptr}}); }), HasSubstr("EvalSpec: a hook"));
  EXPECT_THAT(
      error_of([] { EstimatorSpec({.mode = ModeKeys::eval, .loss = at::ones({}), .evaluation_hooks = {nullptr}}); }),
      HasSubstr("EstimatorSpec, mode eval: a hook is a null pointer"));
}

TEST_F(EstimatorMistakes, HooksOfALossAreRefusedInPrediction) {
  const Estimator estimator = dense("model");
  estimator.train(pairs(4));
  EXPECT_THAT(error_of_prediction(estimator, std::make_shared<NanTensorHook>()),
              HasSubstr("NanTensorHook: a prediction has no loss"));
  const LoggingTensorOptions each{.every_n_iter = 1};
  EXPECT_THAT(
      error_of_prediction(estimator, std::make_shared<LoggingTensorHook>(std::vector<std::string>{"loss"}, each)),
      HasSubstr("LoggingTensorHook: a prediction has no loss"));
}

// Asks in the first step that it be the last.
struct StopsAtOnce : SessionRunHook {
  void after_run(RunContext& context, const RunValues&) override { context.request_stop(); }
  void end(Session&) override { ++ends; }
  int ends = 0;
};

TEST_F(EstimatorMistakes, APredictionEndsWhereAHookSaysSo) {
  const Estimator estimator = dense("model");
  estimator.train(pairs(4));
  const auto stops = std::make_shared<StopsAtOnce>();
  int64_t count = 0;
  for (const auto& prediction : estimator.predict(pairs(8), {.hooks = {stops}})) count += prediction.size() > 0;
  EXPECT_EQ(count, 2);  // those of the first batch
  EXPECT_EQ(stops->ends, 1);
}

TEST_F(EstimatorMistakes, ALossThatIsNoNumberEndsATraining) {
  const Estimator estimator = dense("model");
  const auto train = [&](const Hooks& hooks) {
    return error_of([&] { estimator.train(pairs(4, NAN), {.hooks = hooks}); });
  };
  const auto named = AllOf(HasSubstr("failed_precondition"), HasSubstr("the loss is not a number after the step"));
  EXPECT_THAT(train({}), named);
  EXPECT_THAT(train({std::make_shared<NanTensorHook>(/*fail_on_nan_loss=*/false)}), named);  // the run has its own
  EXPECT_EQ(error_of([&] { estimator.evaluate(pairs(4, NAN)); }), "no error");
}

TEST_F(EstimatorMistakes, ALossWithoutAGradientIsRefused) {
  const auto model = [](const Tensor& features, const Tensor&, ModeKeys mode) {
    const Tensor count = (keras::layers::Dense({.units = 1})(features) > 0).sum();
    return EstimatorSpec(
        {.mode = mode, .loss = count, .train_op = keras::optimizers::SGD().minimize(count, get_global_step())});
  };
  EXPECT_THAT(error_of([&] { Estimator(model, {.model_dir = folder_ / "model"}).train(pairs(4)); }),
              HasSubstr("model_fn, mode train: the loss that its train_op minimizes depends on no trained variable"));
}

TEST_F(EstimatorMistakes, AnotherStructureIsNamed) {
  const Estimator estimator = dense("model");
  estimator.train(pairs(4));
  const auto columns = [] {
    return data::from_tensor_slices(data::Columns{{"x", at::ones({4})}}, at::ones({4, 1})).batch(2);
  };
  EXPECT_THAT(error_of([&] { estimator.evaluate(columns); }),
              HasSubstr("the input function gives the Columns [x], and the model function takes a Tensor"));
  const auto wider = [] { return data::from_tensor_slices(at::ones({4, 3}), at::ones({4, 1})).batch(2); };
  EXPECT_THAT(error_of([&] { estimator.evaluate(wider); }), HasSubstr("'variables/dense/kernel' is Float [2, 1]"));
}

TEST_F(EstimatorMistakes, RunsTakePlaceOutsideOfScopes) {
  MirroredStrategy two({.devices = configure_logical_cpus(2)}), three({.devices = configure_logical_cpus(3)});
  const auto steps_in = [&](Strategy& scope, const char* name, const RunConfigOptions& config) {
    const Estimator estimator = dense(name, config);
    scope.build([&] {
      estimator.train(pairs(8));
      EXPECT_EQ(estimator.get_variable_value("dense/kernel").numel(), 2);
      EXPECT_GE(estimator.evaluate(pairs(8)).at("loss"), 0);
      int64_t count = 0;
      for (const auto& prediction : estimator.predict(pairs(8))) count += prediction.at("logits").tensor().numel();
      EXPECT_EQ(count, 8);
    });
    return estimator.get_variable_value("global_step").item<int64_t>();
  };
  EXPECT_EQ(steps_in(two, "alone", {}), 4);
  EXPECT_EQ(steps_in(two, "own", {.train_distribute = two, .eval_distribute = two}), 2);
  EXPECT_EQ(steps_in(three, "others", {.train_distribute = two, .eval_distribute = two}), 2);
}

TEST_F(EstimatorMistakes, RunsTakePlaceOutsideOfInferenceMode) {
  const c10::InferenceMode inference;
  const Estimator estimator = dense("model");
  EXPECT_EQ(error_of([&] { estimator.train(pairs(4)).evaluate(pairs(4)); }), "no error");
}

TEST_F(EstimatorMistakes, RunsInAReplicaAreRefused) {
  MirroredStrategy two({.devices = configure_logical_cpus(2)});
  const Estimator estimator = dense("model");
  EXPECT_THAT(error_of([&] { two.run([&] { estimator.train(pairs(4)); }); }),
              AllOf(HasSubstr("Estimator::train"), HasSubstr("call it outside of run")));
}

// Trains on where a run begins, and leaves the newest checkpoint alone.
struct TrainsOn : SessionRunHook {
  explicit TrainsOn(Estimator estimator) : trains(std::move(estimator)) {}
  void begin() override { trains.train(pairs(2), {.steps = 1}); }
  Estimator trains;
};

TEST_F(EstimatorMistakes, ACheckpointThatATrainingRemovesGivesWayToTheNewest) {
  const Estimator estimator = dense("model", {.keep_checkpoint_max = 1});
  estimator.train(pairs(2));
  const auto hook = std::make_shared<TrainsOn>(estimator);
  EXPECT_EQ(estimator.evaluate(pairs(4), {.hooks = {hook}}).at("global_step"), 2);
  EXPECT_EQ(error_of_prediction(estimator, hook), "no error");
  const auto named = estimator.latest_checkpoint();
  EXPECT_THAT(error_of([&] { estimator.evaluate(pairs(4), {.hooks = {hook}, .checkpoint_path = *named}); }),
              HasSubstr(named->filename().string()));
}

// Has another one train in the midst of a training.
struct TrainsBeside : SessionRunHook {
  explicit TrainsBeside(Estimator estimator) : trains(std::move(estimator)) {}
  void after_run(RunContext&, const RunValues&) override { trains.train(pairs(4)); }
  Estimator trains;
};

TEST_F(EstimatorMistakes, OneTrainingAtATimeHasAFolder) {
  const auto other = std::make_shared<TrainsBeside>(dense("model"));
  EXPECT_THAT(error_of([&] { dense("model", {.save_checkpoints_steps = 1}).train(pairs(4), {.hooks = {other}}); }),
              HasSubstr("is saved to by another manager"));
}

TEST_F(EstimatorMistakes, FoldersMayBeLinksAndNotFiles) {
  std::filesystem::create_directory(folder_ / "real");
  std::filesystem::create_directory_symlink(folder_ / "real", folder_ / "link");
  dense("link").train(pairs(4));
  EXPECT_EQ(dense("real").get_variable_value("global_step").item<int64_t>(), 2);
  std::ofstream(folder_ / "file") << "text";
  EXPECT_THAT(error_of([&] { dense("file").train(pairs(4)); }), HasSubstr("Not a directory"));
}

TEST_F(EstimatorMistakes, HoursBeyondCountingKeepNothingForEver) {
  const double never = std::numeric_limits<double>::infinity();
  const Estimator estimator =
      dense("model", {.save_checkpoints_steps = 1, .keep_checkpoint_max = 1, .keep_checkpoint_every_n_hours = never});
  estimator.train(pairs(8));
  EXPECT_EQ(estimator.latest_checkpoint()->filename(), "ckpt-4");
  EXPECT_FALSE(std::filesystem::exists(estimator.model_dir() / "ckpt-2"));
}

TEST_F(EstimatorMistakes, WarmStartsNameWhatNothingHas) {
  std::vector<std::string> warnings;
  const WarningSink outer = set_warning_sink([&](const std::string& line) { warnings.push_back(line); });
  dense("first").train(pairs(4));
  int count = 0;
  const auto error_with = [&](WarmStartSettings settings) {
    settings.ckpt_to_initialize_from = folder_ / "first";
    const std::string name = "second" + std::to_string(count++);
    return error_of(
        [&] { Estimator(dense_model, {.model_dir = folder_ / name, .warm_start_from = settings}).train(pairs(4)); });
  };
  EXPECT_THAT(error_with({.vars_to_warm_start = {{"("}}}),
              HasSubstr("vars_to_warm_start has '(', no regular expression"));
  EXPECT_THAT(error_with({.var_name_to_prev_var_name = {{"dens/kernel", "dense/kernel"}}}),
              HasSubstr("var_name_to_prev_var_name has 'dens/kernel'"));
  EXPECT_EQ(error_with({.vars_to_warm_start = {{"dense/bias", "other"}}}), "no error");
  set_warning_sink(outer);
  EXPECT_THAT(warnings, ::testing::ElementsAre(HasSubstr("vars_to_warm_start has 'other'")));
}

TEST_F(EstimatorMistakes, WarmStartsFollowAVocabulary) {
  namespace fc = feature_column;
  const auto vocabulary = [&](const char* name, const char* words) {
    std::ofstream(folder_ / name) << words;
    return folder_ / name;
  };
  const auto old_vocab = vocabulary("old", "cat\ndog\n"), new_vocab = vocabulary("new", "emu\ndog\nunused\n");
  const auto input = [] {
    const data::Columns pets{{"pet", Strings({"cat", "dog"}, {2})}};
    return data::from_tensor_slices(pets, at::tensor({3.F, 5.F})).batch(2);
  };
  const auto model = [&](const char* name, const std::filesystem::path& file, int64_t size,
                         const std::optional<WarmStartSettings>& warm_start) {
    const auto pet = fc::categorical_column_with_vocabulary_file(
        "pet", file, {.vocabulary_size = size, .num_oov_buckets = size == 2 ? 1 : 0});
    return LinearRegressor({.feature_columns = {pet}, .model_dir = folder_ / name, .warm_start_from = warm_start});
  };
  const std::string weights = "linear/linear_model/pet/weights";
  const LinearRegressor first = model("first", old_vocab, 2, {});
  first.train([&] { return input().repeat(3); });
  VocabInfo info{.new_vocab = new_vocab, .new_vocab_size = 2, .num_oov_buckets = 1, .old_vocab = old_vocab};
  const auto settings = [&] {
    return WarmStartSettings{.ckpt_to_initialize_from = folder_ / "first", .var_name_to_vocab_info = {{weights, info}}};
  };
  struct Look : SessionRunHook {
    std::map<std::string, Tensor> found;
    void after_create_session(Session& session) override {
      for (const std::string& name : session.variable_names()) found[name] = session.variable(name);
    }
  };
  const auto look = std::make_shared<Look>();
  model("second", new_vocab, 2, settings()).train(input, {.hooks = {look}});
  const Tensor learnt = first.get_variable_value(weights);
  EXPECT_NE(learnt[1].item<float>(), 0);
  EXPECT_TRUE(at::equal(look->found.at(weights), at::stack({at::zeros({1}), learnt[1], at::zeros({1})})));

  info.backup_initializer = keras::initializers::Ones();
  model("third", new_vocab, 2, settings()).train(input, {.hooks = {look}});
  EXPECT_TRUE(at::equal(look->found.at(weights), at::stack({at::ones({1}), learnt[1], at::ones({1})})));

  const auto error_with = [&](const char* name, const WarmStartSettings& wrong) {
    return error_of([&] { model(name, new_vocab, 2, wrong).train(input); });
  };
  info.new_vocab_size = 3;
  EXPECT_THAT(error_with("fourth", settings()), HasSubstr("along axis 0 there are 3 words and 1 buckets now"));
  info.new_vocab_size = 9;
  EXPECT_THAT(error_with("fifth", settings()), HasSubstr("has 3 lines, and its size is 9"));
  EXPECT_THAT(error_with("sixth", {.ckpt_to_initialize_from = folder_ / "first",
                                   .var_name_to_vocab_info = {{"pet/weights", info}}}),
              HasSubstr("var_name_to_vocab_info has 'pet/weights'"));
}

class ClassLabels : public EstimatorMistakes {
 protected:
  std::string error_with(const Tensor& labels, int64_t n_classes) const {
    const LinearClassifier classifier({.feature_columns = {feature_column::numeric_column("x")},
                                       .model_dir = (TemporaryFolder() / "model").string(),
                                       .n_classes = n_classes});
    return error_of([&] {
      classifier.train([&] {
        return data::from_tensor_slices(data::Columns{{"x", at::ones({labels.size(0)})}}, labels).batch(4);
      });
    });
  }
};

TEST_F(ClassLabels, ThatACastWouldChangeAreRefused) {
  EXPECT_THAT(error_with(at::tensor({0.5F, 2.F}), 3),
              HasSubstr("labels have dtype Float; of 3 classes they are integers"));
  EXPECT_THAT(error_with(at::tensor({0.F, NAN}), 2), HasSubstr("labels lie in [nan, nan], and there are 2 classes"));
  EXPECT_THAT(error_with(at::tensor({0, 3}), 3), HasSubstr("labels lie in [0, 3], and there are 3 classes"));
  EXPECT_THAT(error_with(at::ones({2}, at::kComplexFloat), 2), HasSubstr("labels are complex"));
  EXPECT_EQ(error_with(at::ones({2}, at::kBool), 2), "no error");
  EXPECT_EQ(error_with(at::tensor({0.F, 0.5F}), 2), "no error");
}

TEST_F(ClassLabels, MayBeNoneAtAll) {
  const LinearClassifier classifier(
      {.feature_columns = {feature_column::numeric_column("x")}, .model_dir = folder_ / "model"});
  const auto input = [] {
    return data::from_tensor_slices(at::ones({3})).batch(2).map([](const Tensor& x) {
      const Tensor rows = x.size(0) == 1 ? x.slice(0, 0, 0) : x;
      return std::tuple(data::Columns{{"x", rows}}, rows.to(at::kLong));
    });
  };
  classifier.train(input);
  EXPECT_EQ(classifier.get_variable_value("global_step").item<int64_t>(), 2);
  EXPECT_EQ(classifier.evaluate(input).at("accuracy"), 1);
}

TEST_F(EstimatorMistakes, EvaluationsStayInTheFolderOfTheModel) {
  const LinearRegressor regressor(
      {.feature_columns = {feature_column::numeric_column("x")}, .model_dir = folder_ / "model"});
  const auto input = [] {
    return data::from_tensor_slices(data::Columns{{"x", at::ones({2})}}, at::ones({2})).batch(2);
  };
  EXPECT_THAT(error_of([&] { regressor.evaluate(input, {.name = "/../../other"}); }),
              HasSubstr("an evaluation named '/../../other' would be written outside of"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(EstimatorMistakes, AWeightColumnIsNamed) {
  const LinearRegressor regressor({.feature_columns = {feature_column::numeric_column("x")},
                                   .model_dir = folder_ / "model",
                                   .weight_column = "importance"});
  const auto train_on = [&](const data::Columns& features) {
    return error_of(
        [&] { regressor.train([&] { return data::from_tensor_slices(features, at::ones({2})).batch(2); }); });
  };
  EXPECT_THAT(train_on({{"x", at::ones({2})}}),
              HasSubstr("the weight_column 'importance' is no feature of numbers; there are [x]"));
  EXPECT_THAT(train_on({{"x", at::ones({2})}, {"importance", Strings({"a", "b"}, {2})}}),
              HasSubstr("the weight_column 'importance' is no feature of numbers"));
}

}  // namespace
}  // namespace tutti::estimator
