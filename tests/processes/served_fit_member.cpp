// What served_fit_test.py starts as chief, workers and servers, or alone: fit, evaluate and predict of a Keras model.
//   served_fit_member [--epochs N] [--steps N] [--at-once N] [--backup DIR] [--crash STEP FILE] [--unbuilt] [--short]
//                     [--batch-callback] [--slow MS] [--twice] [--optimizer NAME] [--rows-alone]
// Every task prints what its calls returned, behind its name.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <iomanip>
#include <iostream>
#include <sstream>
#include <thread>

#include "tutti/cluster/from_environment.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/data/counter.h"
#include "tutti/data/dataset.h"
#include "tutti/device/logical_devices.h"
#include "tutti/keras/callbacks/backup_and_restore.h"
#include "tutti/keras/callbacks/early_stopping.h"
#include "tutti/keras/callbacks/lambda_callback.h"
#include "tutti/keras/dataset_creator.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/random_seed.h"

namespace {

using namespace tutti;
namespace layers = keras::layers;

struct Options {
  int64_t epochs = 3, steps = 5, at_once = 1, crash = -1, slow_ms = 0;
  std::string backup, crashed, optimizer = "adam";
  bool unbuilt = false, is_short = false, batch_callback = false, twice = false, rows_alone = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto next = [&] { return std::string(argv[++i]); };
    if (name == "--epochs") options.epochs = std::stoll(next());
    if (name == "--steps") options.steps = std::stoll(next());
    if (name == "--at-once") options.at_once = std::stoll(next());
    if (name == "--slow") options.slow_ms = std::stoll(next());
    if (name == "--backup") options.backup = next();
    if (name == "--optimizer") options.optimizer = next();
    if (name == "--unbuilt") options.unbuilt = true;
    if (name == "--short") options.is_short = true;
    if (name == "--batch-callback") options.batch_callback = true;
    if (name == "--twice") options.twice = true;
    if (name == "--rows-alone") options.rows_alone = true;
    if (name == "--crash") {
      options.crash = std::stoll(next());
      options.crashed = next();
    }
  }
  return options;
}

using Samples = std::tuple<Tensor, Tensor>;

// One of the workers, whoever is first.
void crash_once(const std::string& file) {
  if (open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) kill(getpid(), SIGKILL);
}

Samples samples_of(int64_t number) {
  const Tensor ids = (at::arange(16) * (number + 1) + 3 * number).remainder(50).unsqueeze(1);
  return {ids, at::sin(ids.to(at::kFloat))};
}

data::Dataset<Samples> samples(const data::InputContext& context, const Options& options) {
  auto all = data::counter(1000 * context.input_pipeline_id).map([options](const Tensor& number) {
    if (number.item<int64_t>() % 1000 == options.crash) crash_once(options.crashed);
    if (options.slow_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(options.slow_ms));
    return samples_of(number.item<int64_t>() % 1000);
  });
  return options.is_short ? all.take(4) : all;
}

keras::Sequential make_model(const Options& options) {
  std::vector<layers::Layer> made{layers::Embedding({.input_dim = 50, .output_dim = 4}), layers::Flatten(),
                                  layers::BatchNormalization({.momentum = 0.9}), layers::Dense({.units = 1})};
  keras::Sequential model(made);
  if (!options.unbuilt) model.build({keras::kUnknown, 1});
  keras::CompileOptions compile{.loss = keras::losses::MeanSquaredError(),
                                .metrics = {keras::metrics::MeanAbsoluteError({.name = "mae"})},
                                .steps_per_execution = options.at_once};
  if (options.optimizer == "adam") compile.optimizer = keras::optimizers::Adam({.learning_rate = 0.05});
  if (options.optimizer == "ema") compile.optimizer = keras::optimizers::SGD({.learning_rate = 0.05, .use_ema = true});
  if (options.optimizer == "scaled")
    compile.optimizer = keras::optimizers::LossScaleOptimizer(keras::optimizers::SGD({.learning_rate = 0.05}));
  model.compile(compile);
  return model;
}

std::string text(const keras::History& history) {
  std::ostringstream out;
  out << std::setprecision(9);
  for (const auto& [name, values] : history.history)
    for (const double value : values) out << ' ' << name << '=' << value;
  return out.str();
}

void train(Strategy& strategy, const Options& options, const std::string& task) {
  const auto model = strategy.build([&] { return make_model(options); });
  const auto creator =
      keras::DatasetCreator([&](const data::InputContext& context) { return samples(context, options); });
  const keras::Batches validation = data::counter(0).take(5).map([](const Tensor& number) {
    const auto [x, y] = samples_of(7 * number.item<int64_t>() + 2);
    const int64_t count = 16 - 3 * number.item<int64_t>();  // batches of several sizes
    return Samples(x.slice(0, 0, count), y.slice(0, 0, count));
  });
  int64_t epochs_seen = 0, batches_seen = 0;
  std::vector<keras::callbacks::Callback> callbacks{
      keras::callbacks::EarlyStopping({.monitor = "val_loss", .patience = 100, .restore_best_weights = true}),
      keras::callbacks::LambdaCallback({.on_epoch_end = [&](auto& state, int64_t, keras::Logs& logs) {
        ++epochs_seen;  // on the chief, with the servers' weights
        logs["here"] = state.model.evaluate(validation, {.verbose = keras::Verbose::silent}).at("loss");
      }})};
  if (!options.backup.empty())
    callbacks.push_back(keras::callbacks::BackupAndRestore({.backup_dir = options.backup, .delete_checkpoint = false}));
  if (options.batch_callback)
    callbacks.push_back(keras::callbacks::LambdaCallback(
        {.on_train_batch_end = [&](auto&, int64_t, const keras::RunningLogs&) { ++batches_seen; }}));
  keras::FitOptions fit{.epochs = options.epochs,
                        .verbose = keras::Verbose::silent,
                        .callbacks = callbacks,
                        .validation_data = validation,
                        .steps_per_epoch = options.steps};
  std::ostringstream out;
  out << std::setprecision(9) << "fit" << text(model.fit(creator, fit)) << '\n';
  if (options.twice) out << "again" << text(model.fit(creator, fit)) << '\n';
  for (const auto& [name, value] : model.evaluate(validation, {.verbose = keras::Verbose::silent}))
    out << "evaluated " << name << '=' << value << '\n';
  const Tensor predicted = model.predict(validation);
  out << "predicted " << predicted.size(0) << " sum=" << predicted.sum().item<double>()
      << " first=" << predicted[0][0].item<double>() << '\n';
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) std::cout << task << ": " + line + "\n" << std::flush;
  std::cout << task << ": epochs " << epochs_seen << " batches " << batches_seen << '\n' << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto resolver = cluster::from_environment();
  const std::string task = resolver.task() ? to_string(*resolver.task()) : "chief 0";
  set_random_seed(3);
  try {
    const auto largest_copy = options.rows_alone ? std::optional<int64_t>(256) : std::nullopt;  // the table has 800
    ParameterServerStrategy strategy({.variable_partitioner = FixedShardsPartitioner(3),
                                      .devices = configure_logical_cpus(1),
                                      .largest_copy_bytes = largest_copy,
                                      .connect_timeout = std::chrono::seconds(60),
                                      .lost_after = std::chrono::seconds(5)});
    train(strategy, options, task);
  } catch (const Error& error) {
    std::cerr << task << ": " << to_string(error.code()) << ": " << error.what() << '\n' << std::flush;
    return 3;
  }
  return 0;
}
