#include "tutti/estimator/estimator.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/central_storage_strategy.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/one_device_strategy.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/estimator/log.h"
#include "tutti/estimator/model_call.h"
#include "tutti/estimator/train_and_evaluate.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::estimator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Tensor kFirstKernel = at::tensor({0.73372758F, -0.03548989F}).view({2, 1});
const keras::initializers::Initializer kFirstWeights("guide", [](Tensor& kernel) { kernel.copy_(kFirstKernel); });

Tensor rows(float first) { return at::arange(3).to(at::kFloat).unsqueeze(1) + at::tensor({first, first + 0.5F}); }
Tensor guide_labels() { return at::tensor({0.3F, 0.5F, 0.7F}).unsqueeze(1); }

auto guide_input() {
  return [] { return data::from_tensor_slices(rows(1), guide_labels()).batch(1); };
}
auto guide_eval_input() {
  return [] { return data::from_tensor_slices(rows(4), at::tensor({0.8F, 0.9F, 1.0F}).unsqueeze(1)).batch(1); };
}

EstimatorSpec guide_model(const Tensor& features, const Tensor& labels, ModeKeys mode) {
  const Tensor logits = keras::layers::Dense({.units = 1, .kernel_initializer = kFirstWeights})(features);
  if (mode == ModeKeys::predict) return EstimatorSpec({.mode = mode, .predictions = {{"logits", logits}}});
  const Tensor loss = at::mse_loss(logits, labels);
  const keras::optimizers::Adagrad optimizer({.learning_rate = 0.05, .initial_accumulator_value = 0.1});
  return EstimatorSpec({.mode = mode,
                        .predictions = {{"logits", logits}},
                        .loss = loss,
                        .train_op = optimizer.minimize(loss, get_global_step())});
}

// The lines of runs while it lives.
class LoggedLines {
 public:
  LoggedLines() : outer_(set_log_sink([this](const std::string& line) { lines_.push_back(line); })) {}
  ~LoggedLines() { set_log_sink(outer_); }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
  LogSink outer_;
};

// The guide's figures, as it prints them.
void expect_guides_figures(const RunConfig& config) {
  const LoggedLines log;
  const TemporaryFolder folder;
  const Estimator estimator(guide_model, {.model_dir = folder.path(), .config = config});
  const auto [metrics, exports] =
      train_and_evaluate(estimator, TrainSpec({.input_fn = guide_input()}), EvalSpec({.input_fn = guide_eval_input()}));
  EXPECT_NEAR(metrics.at("loss"), 1.1251448, 2e-5);
  EXPECT_EQ(metrics.at("global_step"), 3);
  EXPECT_THAT(log.lines(), ::testing::Contains(::testing::StartsWith("loss = 0.144774")));
  EXPECT_THAT(log.lines(), ::testing::Contains(::testing::StartsWith("Loss for final step: 0.45722")));
}

TEST(Estimator, GivesTheGuidesFigures) { expect_guides_figures(RunConfig()); }

TEST(Estimator, GivesTheGuidesFiguresUnderOneReplica) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(1)});
  expect_guides_figures(RunConfig({.train_distribute = strategy, .eval_distribute = strategy}));
}

TEST(Estimator, TakesABatchForEachReplica) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const TemporaryFolder folder;
  const LoggedLines log;
  const Estimator estimator(
      guide_model,
      {.model_dir = folder.path(), .config = RunConfig({.train_distribute = strategy, .eval_distribute = strategy})});
  estimator.train(guide_input());
  EXPECT_EQ(estimator.get_variable_value("global_step").item<int64_t>(), 1);
  EXPECT_THAT(log.lines(),
              ::testing::Contains(AllOf(::testing::StartsWith("loss = 0.45847"), ::testing::EndsWith("step = 0"))));
  EXPECT_THAT(log.lines(), ::testing::Contains(::testing::StartsWith("Loss for final step: 0.45847")));
  EXPECT_TRUE(at::allclose(estimator.get_variable_value("dense/kernel"),
                           at::tensor({0.68426573F, -0.08516666F}).view({2, 1}), 1e-5, 1e-5));
  EXPECT_NEAR(estimator.evaluate(guide_eval_input()).at("loss"), 4.183758, 1e-4);  // of all three batches
  EXPECT_THAT(estimator.get_variable_names(),
              ElementsAre("dense/bias", "dense/bias/adagrad", "dense/kernel", "dense/kernel/adagrad", "global_step"));
}

TEST(Estimator, TrainsUnderEveryStrategyOfOneProcess) {
  const DeviceList two = configure_logical_cpus(2);
  MirroredStrategy mirrored({.devices = two});
  CentralStorageStrategy central({.compute_devices = two});
  ParameterServerStrategy servers({.devices = two});
  OneDeviceStrategy one(two.devices()[1]);
  const LoggedLines log;
  const auto kernel_under = [&](Strategy& strategy) {
    const TemporaryFolder folder;
    const RunConfig config({.train_distribute = strategy, .eval_distribute = strategy});
    const Estimator estimator(guide_model, {.model_dir = folder.path(), .config = config});
    estimator.train(guide_input());
    EXPECT_NEAR(estimator.evaluate(guide_eval_input()).at("loss"),
                strategy.num_replicas_in_sync() == 1 ? 1.1251448 : 4.183758, 1e-4);
    return estimator.get_variable_value("dense/kernel");
  };
  const Tensor of_two = kernel_under(mirrored);
  EXPECT_TRUE(at::allclose(of_two, at::tensor({0.68426573F, -0.08516666F}).view({2, 1}), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(kernel_under(central), of_two));
  EXPECT_TRUE(at::allclose(kernel_under(servers), of_two));
  EXPECT_TRUE(at::allclose(kernel_under(one), kernel_under(get_strategy())));

  ParameterServerStrategy workers({.devices = two, .workers = 3});
  EXPECT_THAT(error_of([&] { Estimator(guide_model, {.config = RunConfig({.train_distribute = workers})}); }),
              AllOf(HasSubstr("unimplemented"), HasSubstr("of 3 workers")));
}

TEST(Estimator, TellsOfAFolderForTemporaryFilesThatIsNotThere) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/nowhere/at/all", 1);
  EXPECT_THAT(error_of([] { Estimator{guide_model}; }), AllOf(HasSubstr("TMPDIR"), HasSubstr("set model_dir")));
  unsetenv("TMPDIR");
  if (before) setenv("TMPDIR", kept.c_str(), 1);
}

TEST(Estimator, PredictsExampleByExample) {
  const TemporaryFolder folder;
  const LoggedLines log;
  const Estimator estimator(guide_model, {.model_dir = folder.path()});
  estimator.train(guide_input());
  std::vector<float> logits;
  for (const auto& prediction : estimator.predict([] { return data::from_tensor_slices(rows(4)).batch(2); }))
    logits.push_back(prediction.at("logits").tensor().item<float>());
  EXPECT_THAT(logits, ElementsAre(::testing::FloatNear(1.4998848F, 1e-4F), ::testing::FloatNear(1.9266298F, 1e-4F),
                                  ::testing::FloatNear(2.353375F, 1e-4F)));
}

TEST(Estimator, GoesOnFromItsCheckpoint) {
  const TemporaryFolder folder;
  const LoggedLines log;
  Estimator(guide_model, {.model_dir = folder.path()}).train(guide_input(), {.steps = 2});
  const Estimator again(guide_model, {.model_dir = folder.path()});
  again.train(guide_input(), {.max_steps = 4});
  EXPECT_EQ(again.get_variable_value("global_step").item<int64_t>(), 4);
  again.train(guide_input(), {.max_steps = 4});
  EXPECT_THAT(log.lines().back(), HasSubstr("Skipping training"));
}

EstimatorSpec model_with_dropout(const Tensor& features, const Tensor& labels, ModeKeys mode) {
  const Tensor hidden = keras::layers::Dense({.units = 8})(features);
  const Tensor dropped = keras::layers::Dropout({.rate = 0.5})(hidden, {.training = mode == ModeKeys::train});
  const Tensor loss = at::mse_loss(keras::layers::Dense({.units = 1})(dropped), labels);
  return EstimatorSpec(
      {.mode = mode, .loss = loss, .train_op = keras::optimizers::Adagrad().minimize(loss, get_global_step())});
}

auto endless_shuffled_input() {
  return [] { return data::from_tensor_slices(rows(1), guide_labels()).shuffle(3, {.seed = 7}).repeat().batch(2); };
}

// Stops a training as a failure does.
class FailsAt : public SessionRunHook {
 public:
  explicit FailsAt(int64_t step) : step_(step) {}
  void before_run(RunContext& context) override {
    if (context.session().global_step() == step_) throw std::runtime_error("power cut");
  }

 private:
  int64_t step_;
};

TEST(Estimator, GoesOnBitForBitWhereATrainingWasInterrupted) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const TemporaryFolder folder;
  const LoggedLines log;
  const auto kernel_after = [&](const char* name, bool interrupted) {
    const RunConfig config({.tf_random_seed = 3, .save_checkpoints_steps = 2, .train_distribute = strategy});
    const Estimator estimator(model_with_dropout, {.model_dir = folder / name, .config = config});
    if (interrupted) {
      EXPECT_THROW(estimator.train(endless_shuffled_input(), {.hooks = {std::make_shared<FailsAt>(5)}, .max_steps = 9}),
                   std::runtime_error);
    }
    estimator.train(endless_shuffled_input(), {.max_steps = 9});
    return estimator.get_variable_value("dense/kernel");
  };
  EXPECT_TRUE(at::equal(kernel_after("whole", false), kernel_after("cut", true)));
}

TEST(Estimator, ExactLossIsThatOfOneDevice) {
  const TemporaryFolder folder;
  const LoggedLines log;
  const auto sgd_model = [](const Tensor& features, const Tensor& labels, ModeKeys mode) {
    const Tensor loss =
        at::mse_loss(keras::layers::Dense({.units = 1, .kernel_initializer = kFirstWeights})(features), labels);
    return EstimatorSpec(
        {.mode = mode, .loss = loss, .train_op = keras::optimizers::SGD().minimize(loss, get_global_step())});
  };
  const auto kernel_of = [&](const char* name, const RunConfig& config, int64_t batch) {
    const Estimator estimator(sgd_model, {.model_dir = folder / name, .config = config});
    estimator.train([batch] { return data::from_tensor_slices(rows(1), guide_labels()).batch(batch); });
    return estimator.get_variable_value("dense/kernel");
  };
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const RunConfig exact({.train_distribute = strategy, .loss_scaling = LossScaling::exact});
  const Tensor one_device = kernel_of("one", RunConfig(), 3);
  EXPECT_TRUE(at::allclose(kernel_of("exact", exact, 2), one_device));
  EXPECT_FALSE(at::allclose(kernel_of("each", RunConfig({.train_distribute = strategy}), 2), one_device));
}

RunConfig config_of_task(const std::string& task) {
  const std::string cluster = R"({"chief": ["a:1"], "worker": ["b:1", "c:1"]})";
  return RunConfig({}, cluster::Environment(cluster::Environment::Variables{
                           {"TF_CONFIG", str("{\"cluster\": ", cluster, ", \"task\": ", task, "}")}}));
}

TEST(Estimator, AsAnEvaluatorEvaluatesUntilTheLastCheckpoint) {
  const TemporaryFolder folder;
  const LoggedLines log;
  const Estimator estimator(
      guide_model, {.model_dir = folder.path(), .config = config_of_task(R"({"type": "evaluator", "index": 0})")});
  const auto evaluate = [&] {
    return train_and_evaluate(
               estimator, TrainSpec({.input_fn = guide_input(), .max_steps = 3}),
               EvalSpec(
                   {.input_fn = guide_eval_input(), .start_delay_secs = 0, .throttle_secs = 0, .patience_secs = 0.1}))
        .first;
  };
  EXPECT_THAT(error_of(evaluate), AllOf(HasSubstr("deadline_exceeded"), HasSubstr("found no checkpoint")));
  const Estimator trains(guide_model, {.model_dir = folder.path()});
  trains.train(guide_input(), {.max_steps = 2});
  EXPECT_THAT(error_of(evaluate), HasSubstr("found no new checkpoint"));
  trains.train(guide_input(), {.max_steps = 3});
  const Metrics metrics = evaluate();
  EXPECT_EQ(metrics.at("global_step"), 3);
  EXPECT_THAT(log.lines().back(), HasSubstr("Exiting evaluation, global_step=3"));
}

TEST(Estimator, OfSeveralProcessesNeedsTheirStrategy) {
  const TemporaryFolder folder;
  const auto error_of_task = [&](const char* task) {
    return error_of([&] { Estimator(guide_model, {.model_dir = folder.path(), .config = config_of_task(task)}); });
  };
  EXPECT_THAT(error_of_task(R"({"type": "worker", "index": 1})"),
              AllOf(HasSubstr("the worker 1 of 3 that train together"), HasSubstr("MultiWorkerMirroredStrategy")));
  EXPECT_EQ(error_of_task(R"({"type": "evaluator", "index": 0})"), "no error");
}

TEST(Estimator, RefusesMistakesByName) {
  const TemporaryFolder folder;
  const LoggedLines log;
  const Estimator estimator(guide_model, {.model_dir = folder.path()});
  EXPECT_THAT(error_of([&] { estimator.train(guide_input(), {.steps = 1, .max_steps = 2}); }),
              HasSubstr("steps and max_steps are given"));
  EXPECT_THAT(error_of([&] { estimator.train(guide_input(), {.steps = 0}); }), HasSubstr("steps is 0"));
  const auto without_loss = [](const Tensor&, const Tensor&, ModeKeys mode) { return EstimatorSpec({.mode = mode}); };
  EXPECT_THAT(error_of([&] { Estimator(without_loss, {.model_dir = folder / "a"}).evaluate(guide_input()); }),
              HasSubstr("EstimatorSpec, mode eval: there is no loss"));
  EXPECT_THAT(error_of([&] { Estimator(without_loss, {.model_dir = folder / "a"}).train(guide_input()); }),
              HasSubstr("EstimatorSpec, mode train: there is no train_op"));
  EXPECT_THAT(error_of([&] { (void)estimator.get_variable_value("dense/kernel"); }), HasSubstr("no checkpoint in"));
  EXPECT_THAT(error_of([&] { Estimator(guide_model, {.model_dir = "a", .config = RunConfig({.model_dir = "b"})}); }),
              HasSubstr("model_dir is 'a', and that of config 'b'"));
  EXPECT_THAT(error_of([&] { Estimator(guide_model, {.params = {{"rate", 0.1}}}); }), HasSubstr("takes none"));
}

TEST(Estimator, RefusesTheFolderOfAnotherModel) {
  const TemporaryFolder folder;
  const LoggedLines log;
  Estimator(guide_model, {.model_dir = folder.path()}).train(guide_input());
  const Estimator other(model_with_dropout, {.model_dir = folder.path()});
  EXPECT_THAT(error_of([&] { other.train(guide_input()); }), ::testing::StartsWith("failed_precondition"));
  EXPECT_THAT(error_of([&] { other.evaluate(guide_input()); }), ::testing::StartsWith("failed_precondition"));
  const auto of_another_width = [](const Tensor& features, ModeKeys mode) {
    const Tensor loss = keras::layers::Dense({.units = 3})(features).sum();
    return EstimatorSpec(
        {.mode = mode, .loss = loss, .train_op = keras::optimizers::SGD().minimize(loss, get_global_step())});
  };
  const Estimator wider(of_another_width, {.model_dir = folder.path()});
  const auto features = [] { return data::from_tensor_slices(at::ones({4, 2})).batch(4); };
  EXPECT_THAT(error_of([&] { wider.train(features); }), HasSubstr("dense/kernel"));
}

TEST(Estimator, BeginsWithWhatAnotherModelLearnt) {
  const TemporaryFolder folder;
  const LoggedLines log;
  const Estimator first(guide_model, {.model_dir = folder / "first"});
  first.train(guide_input());
  const Estimator second(guide_model,
                         {.model_dir = folder / "second",
                          .warm_start_from = WarmStartSettings{.ckpt_to_initialize_from = folder / "first"}});
  struct Look : SessionRunHook {
    Tensor kernel;
    void after_create_session(Session& session) override { kernel = session.variable("dense/kernel"); }
  };
  const auto look = std::make_shared<Look>();
  second.train(guide_input(), {.hooks = {look}, .steps = 1});
  EXPECT_TRUE(at::equal(look->kernel, first.get_variable_value("dense/kernel")));
  EXPECT_EQ(second.get_variable_value("global_step").item<int64_t>(), 1);
}

}  // namespace
}  // namespace tutti::estimator
