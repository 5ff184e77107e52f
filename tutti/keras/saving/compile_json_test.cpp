#include "tutti/keras/saving/compile_json.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/dtensor/layout_map.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/losses/huber.h"
#include "tutti/keras/metrics/auc.h"
#include "tutti/keras/model.h"
#include "tutti/keras/optimizers/adafactor.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/optimizers/multi_optimizer.h"
#include "tutti/keras/optimizers/nadam.h"
#include "tutti/keras/optimizers/schedules.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/saving/load_model.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::keras {
namespace {

using layers::Dense;
using layers::InputLayer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Sequential network() {
  return Sequential(
      {InputLayer({.shape = {4}}), Dense({.units = 6, .activation = activations::tanh}), Dense({.units = 2})});
}

struct Data {
  Tensor x = at::rand({12, 4}), y = at::rand({12, 2});
};

void train(const Model& model, const Data& data, int count) {
  for (int i = 0; i < count; ++i) model.train_on_batch({.x = data.x, .y = data.y});
}

void expect_same_weights(const Model& model, const Model& expected) {
  const auto& own = model.weights();
  const auto& wanted = expected.weights();
  ASSERT_EQ(own.size(), wanted.size());
  for (size_t i = 0; i < own.size(); ++i)
    EXPECT_TRUE(at::equal(gather(own[i].value), gather(wanted[i].value))) << own[i].name;
}

// --- Training that goes on.

TEST(CompileJson, TrainingGoesOnBitForBit) {
  using namespace optimizers;
  const std::vector<Optimizer> all{
      SGD({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}),
      Adam({.learning_rate = 0.001, .amsgrad = true, .use_ema = true, .gradient_accumulation_steps = 2}),
      Adam({.learning_rate = schedules::CosineDecay({.initial_learning_rate = 0.1, .decay_steps = 5})}),
      Nadam(),
      Adafactor({.learning_rate = 0.05}),
      LossScaleOptimizer(Adam(), {.initial_scale = 4, .dynamic_growth_steps = 3}),
  };
  const Data data;
  const TemporaryFolder folder;
  for (const Optimizer& optimizer : all) {
    SCOPED_TRACE(optimizer.name());
    const Sequential model = network();
    model.compile({.optimizer = optimizer, .loss = "mse", .metrics = {"mae"}});
    train(model, data, 3);
    optimizer.set_learning_rate(optimizer.has_schedule() ? optimizer.impl()->rate() : LearningRate(0.0371));
    model.save(folder / "m.keras");
    const Model again = load_model(folder / "m.keras");
    EXPECT_EQ(again.model().optimizer().iterations(), optimizer.iterations());
    train(model, data, 4);
    train(again, data, 4);
    expect_same_weights(again, model);
    EXPECT_EQ(again.evaluate(data.x, data.y, {.verbose = Verbose::silent}),
              model.evaluate(data.x, data.y, {.verbose = Verbose::silent}));
  }
}

TEST(CompileJson, StateOfMirroredAndShardedModelsIsWhole) {
  const Data data;
  const TemporaryFolder folder;
  const Sequential plain = network();
  const auto options = [] {
    return CompileOptions{.optimizer = optimizers::Adam({.learning_rate = 0.01}), .loss = "mse"};
  };
  plain.compile(options());
  train(plain, data, 2);
  plain.save(folder / "plain.keras");
  train(plain, data, 2);

  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Model mirrored = strategy.build([&] { return load_model(folder / "plain.keras"); });
  train(mirrored, data, 1);
  mirrored.save(folder / "mirrored.keras");
  const Model from_mirrored = load_model(folder / "mirrored.keras");
  train(from_mirrored, data, 1);
  for (size_t i = 0; i < plain.weights().size(); ++i)
    EXPECT_TRUE(from_mirrored.weights()[i].value.allclose(plain.weights()[i].value, 1e-5, 1e-6)) << i;

  for (const bool merge : {true, false}) {
    const Mesh mesh({{"model", 2}}, configure_logical_cpus(2), {.merge = merge});
    const dtensor::LayoutMap map(mesh, {{"dense.*kernel", {kUnsharded, "model"}}});
    const Model sharded = map.build([&] { return load_model(folder / "plain.keras"); });
    sharded.save(folder / "sharded.keras");
    const Model again = load_model(folder / "sharded.keras"), before = load_model(folder / "plain.keras");
    train(again, data, 2);
    train(before, data, 2);
    expect_same_weights(again, before);
  }
}

TEST(CompileJson, WhatWasNeverTrainedBeginsAnew) {
  const TemporaryFolder folder;
  const Sequential model = network();
  model.save(folder / "plain.keras");
  EXPECT_EQ(code_of([&] { train(load_model(folder / "plain.keras"), {}, 1); }), ErrorCode::failed_precondition);
  model.compile({.optimizer = "adam", .loss = "mse"});
  model.save(folder / "m.keras");
  EXPECT_EQ(load_model(folder / "m.keras").model().optimizer().iterations(), 0);
  EXPECT_EQ(code_of([&] { train(load_model(folder / "m.keras", {.compile = false}), {}, 1); }),
            ErrorCode::failed_precondition);
}

// --- What Python lacks.

TEST(CompileJson, FunctionsOfTheProgramAreNamed) {
  const TemporaryFolder folder;
  const Sequential model = network();
  const auto refusal = [&](const CompileOptions& options) {
    model.compile(options);
    return error_of([&] { model.save(folder / "m.keras"); });
  };
  const losses::Loss loss("mine", Reduction::sum, losses::Loss::Function([](const Tensor& y, const Tensor& p) {
                            return (y - p).abs().mean(-1);
                          }));
  EXPECT_THAT(refusal({.optimizer = "sgd", .loss = loss}),
              AllOf(HasSubstr("unimplemented"), HasSubstr("mine"), HasSubstr("{.compile = false}")));
  EXPECT_THAT(refusal({.optimizer = optimizers::SGD({.learning_rate = [](int64_t) { return 0.1; }}), .loss = "mse"}),
              HasSubstr("a learning rate that is a function of this program"));
  EXPECT_THAT(refusal({.optimizer = optimizers::MultiOptimizer({}, optimizers::SGD()), .loss = "mse"}),
              HasSubstr("which Python lacks"));
  EXPECT_FALSE(std::filesystem::exists(folder / "m.keras"));
  model.save(folder / "m.keras", {.compile = false});
  EXPECT_EQ(load_model(folder / "m.keras").weights().size(), 4);
}

// --- Of files from anywhere.

CompileOptions read(const std::string& json, const std::vector<std::string>& names = {"out"}) {
  return compile_options_of(json, names, "m.keras");
}

std::string optimizer_json(const std::string& class_name, const std::string& config) {
  return str(R"({"optimizer": {"class_name": ")", class_name, R"(", "config": {)", config, "}}}");
}

TEST(CompileJson, ReadsEveryFormOfLossesAndMetrics) {
  const std::string huber = R"({"class_name": "Huber", "config": {"name": "h", "reduction": "sum"}})";
  EXPECT_EQ(read(R"({"loss": "mse"})").loss.values()[0].name(), "mean_squared_error");
  EXPECT_EQ(read(str("{\"loss\": [", huber, "]}")).loss.values()[0].reduction(), Reduction::sum);
  EXPECT_EQ(read(str("{\"loss\": {\"any\": ", huber, "}}")).loss.values()[0].name(), "h");
  const std::vector<std::string> ends{"a", "b"};
  const auto tuple = read(str(R"({"loss": {"class_name": "__tuple__", "items": [null, )", huber, "]}}"), ends);
  EXPECT_EQ(tuple.loss.by_name().size(), 1);
  EXPECT_EQ(tuple.loss.by_name().at("b").name(), "h");
  const auto function = read(R"({"loss": {"class_name": "function", "config": "log_cosh"}})");
  EXPECT_EQ(function.loss.values()[0].name(), "log_cosh");
  EXPECT_EQ(read(R"({"metrics": ["mae", ["mse"]]})").metrics.only().size(), 2);
  EXPECT_EQ(read(R"({"metrics": [["mae"], []]})", ends).metrics.by_name().at("a").size(), 1);
  EXPECT_EQ(read(R"({"weighted_metrics": {"b": "mae"}})", ends).weighted_metrics.by_name().at("b").size(), 1);
  EXPECT_THAT(read(R"({"loss": "mse", "loss_weights": [1, 0.5]})", ends).loss_weights.by_name(),
              ElementsAre(std::pair("a", 1.0), std::pair("b", 0.5)));
}

TEST(CompileJson, RefusesWhatIsDamagedOrUnknown) {
  const std::vector<std::pair<std::string, ErrorCode>> cases{
      {"{", ErrorCode::data_loss},
      {"[]", ErrorCode::data_loss},
      {R"({"optimizer": {"class_name": "Adam"}})", ErrorCode::data_loss},
      {R"({"optimizer": 7})", ErrorCode::unimplemented},
      {R"({"optimizer": "none such"})", ErrorCode::unimplemented},
      {R"({"loss": "none such"})", ErrorCode::unimplemented},
      {R"({"loss": ["mse", "mse"]})", ErrorCode::unimplemented},
      {R"({"loss": [null]})", ErrorCode::unimplemented},
      {R"({"loss": {"class_name": "Huber", "config": 3}})", ErrorCode::data_loss},
      {R"({"loss": {"class_name": "Huber", "config": {"delta": -1}}})", ErrorCode::unimplemented},
      {R"({"loss": {"class_name": "Huber", "config": {"exec": "rm"}}})", ErrorCode::unimplemented},
      {R"({"loss": {"class_name": "Huber", "config": {"reduction": "half"}}})", ErrorCode::unimplemented},
      {R"({"loss_weights": ["a"]})", ErrorCode::data_loss},
      {R"({"metrics": {"class_name": "os.system", "config": {}}})", ErrorCode::unimplemented},
      {R"({"metrics": [{"class_name": "AUC", "config": {"num_thresholds": 1000000000000}}]})",
       ErrorCode::unimplemented},
      {R"({"metrics": [{"class_name": "MeanIoU", "config": {"num_classes": 1000000000}}]})", ErrorCode::unimplemented},
      {R"({"metrics": [{"class_name": "AUC", "config": {"thresholds": {"class_name": "__tensor__"}}}]})",
       ErrorCode::unimplemented},
      {R"({"steps_per_execution": "many"})", ErrorCode::data_loss},
      {R"({"hidden": 1})", ErrorCode::unimplemented},
      {optimizer_json("Adam", R"("beta_1": 2)"), ErrorCode::unimplemented},
      {optimizer_json("Adam", R"("learning_rate": null)"), ErrorCode::data_loss},
      {optimizer_json("Adam", R"("learning_rate": -1)"), ErrorCode::unimplemented},
      {optimizer_json("Adam", R"("learning_rate": {"class_name": "Mine", "config": {}})"), ErrorCode::unimplemented},
      {optimizer_json("SGD", R"("learning_rate": {"class_name": "CosineDecay", "config": {"decay_steps": 0}})"),
       ErrorCode::unimplemented},
      {optimizer_json("AdamW", R"("weight_decay": null)"), ErrorCode::data_loss},
      {optimizer_json("LossScaleOptimizer", ""), ErrorCode::unimplemented},
      {optimizer_json("LossScaleOptimizer", R"("inner_optimizer": {"class_name": "Mine", "config": {}})"),
       ErrorCode::unimplemented},
  };
  for (const auto& [json, code] : cases) EXPECT_EQ(code_of([&] { read(json); }), code) << json;
  const std::string deep = str("{\"metrics\": ", std::string(100, '['), "\"mse\"", std::string(100, ']'), '}');
  EXPECT_EQ(code_of([&] { read(deep); }), ErrorCode::data_loss);
}

TEST(CompileJson, WhateverIsInAFileEndsInAnErrorThatTells) {
  const std::string whole =
      compile_json({.optimizer = optimizers::LossScaleOptimizer(
                        optimizers::Adam({.learning_rate = optimizers::schedules::PiecewiseConstantDecay(
                                              {.boundaries = {1}, .values = {0.1, 0.2}})})),
                    .loss = {{"a", losses::Huber({.delta = 2})}, {"b", losses::Loss("ce")}},
                    .loss_weights = {{"a", 0.5}},
                    .metrics = {{"a", {metrics::AUC({.thresholds = {0.5}})}}, {"b", {metrics::Metric("mae")}}}},
                   {"a", "b"}, "m.keras");
  std::mt19937 random(3);
  int num_read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (int change = 0; change < 1 + i % 3; ++change) {
      const size_t at = random() % text.size();
      if (i % 2 == 0)
        text[at] = static_cast<char>(random() % 128);
      else
        text.replace(at, random() % 8, text.substr(random() % text.size(), random() % 8));
    }
    const auto code = code_of([&] { read(text, {"a", "b"}); });  // no other exception
    num_read += code ? 0 : 1;
    EXPECT_THAT(code.value_or(ErrorCode::data_loss), testing::AnyOf(ErrorCode::data_loss, ErrorCode::unimplemented))
        << text;
  }
  EXPECT_GT(num_read, 0);
}

}  // namespace
}  // namespace tutti::keras
