// What served_estimator_test.py starts as chief, worker, ps and evaluator, or alone: an Estimator trains by parameter
// servers, ten steps and then more. The chief prints what was learnt, the evaluator its last metrics.
//   served_estimator_member FOLDER [MS [EPOCHS]]
// Each batch takes MS, so that there is time for what happens meanwhile; without EPOCHS the input has no end.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <chrono>
#include <iomanip>
#include <iostream>
#include <thread>

#include "tutti/cluster/from_environment.h"
#include "tutti/data/strings_from.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/estimator/dnn_linear_combined.h"
#include "tutti/estimator/train_and_evaluate.h"
#include "tutti/feature_column/categorical_column.h"
#include "tutti/feature_column/embedding_column.h"
#include "tutti/feature_column/numeric_column.h"

using namespace tutti;
namespace fc = tutti::feature_column;

int main(int argc, char** argv) {
  const std::filesystem::path folder = argv[1];
  const auto batch_time = std::chrono::milliseconds(argc > 2 ? std::stoll(argv[2]) : 0);
  const int64_t epochs = argc > 3 ? std::stoll(argv[3]) : -1;
  std::optional<ParameterServerStrategy> strategy;
  const bool evaluates = estimator::RunConfig().task().is_evaluator();
  if (!evaluates && !cluster::from_environment().cluster_spec().is_empty())
    strategy.emplace(ParameterServerStrategyOptions{.devices = configure_logical_cpus(1)});

  const auto input_fn = [&](const data::InputContext& context) {
    const Tensor x = (at::arange(64, at::kFloat) * 37).remainder(64) / 64;
    const data::Columns features{{"x", x}, {"pet", strings_from(at::arange(64) % 3, {"cat", "dog", "emu"})}};
    return data::from_tensor_slices(features, x * 2 + 1)
        .shard(context.num_input_pipelines, context.input_pipeline_id)
        .repeat(epochs)
        .batch(8)
        .map([&](data::Columns columns, Tensor label) {
          std::this_thread::sleep_for(batch_time);
          return std::tuple(std::move(columns), std::move(label));
        });
  };
  const auto pet = fc::categorical_column_with_vocabulary_list("pet", {"cat", "dog", "emu"});
  const auto x = fc::numeric_column("x");
  estimator::RunConfigOptions config{.model_dir = folder, .tf_random_seed = 3, .save_checkpoints_steps = 20};
  if (strategy) config.train_distribute = *strategy;
  const estimator::DNNLinearCombinedRegressor regressor(
      {.linear_feature_columns = {x, pet},
       .dnn_feature_columns = {x, fc::embedding_column(pet, {.dimension = 2})},
       .dnn_hidden_units = {4},
       .config = estimator::RunConfig(config)});
  if (!evaluates) regressor.train(input_fn, {.max_steps = 10});
  const auto [metrics, exports] = estimator::train_and_evaluate(
      regressor, estimator::TrainSpec({.input_fn = input_fn, .max_steps = 60}),
      estimator::EvalSpec({.input_fn = input_fn, .steps = 2, .start_delay_secs = 0, .throttle_secs = 0}));
  std::cout << std::setprecision(9);
  if (strategy && !strategy->is_coordinator()) return 0;
  if (evaluates) {
    std::cout << "evaluated " << metrics.at("global_step") << '\n';
    return 0;
  }
  for (const std::string& name : regressor.get_variable_names()) {
    const Tensor value = regressor.get_variable_value(name);
    std::cout << "variable " << name << ' ' << value.to(at::kDouble).sum().item<double>() << '\n';
  }
}
