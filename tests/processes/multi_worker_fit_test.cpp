// Input, fit, evaluate, predict and checkpoints of several processes: see multi_worker_test.cpp.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/processes/of_processes.h"
#include "tests/support/dataset_values.h"
#include "tests/support/error_of.h"
#include "tutti/checkpoint/checkpoint_manager.h"
#include "tutti/checkpoint/weights.h"
#include "tutti/distribute/check_in_sync.h"
#include "tutti/distribute/variable.h"
#include "tutti/keras/callbacks/csv_logger.h"
#include "tutti/keras/callbacks/early_stopping.h"
#include "tutti/keras/callbacks/lambda_callback.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_erasing.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_hue.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/mean.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/random_seed.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class MultiWorkerInput : public OfProcesses {};
class MultiWorkerFit : public OfProcesses {};

// A folder that the chief makes and all processes see.
class MultiWorkerCheckpoint : public OfProcesses {
 protected:
  MultiWorkerCheckpoint() {
    folder = strategy.processes()->on_chief("folder", [] {
      const fs::path path = fs::temp_directory_path() / str("tutti_processes_", getpid());
      fs::remove_all(path);
      fs::create_directories(path);
      return path.string();
    });
  }
  ~MultiWorkerCheckpoint() override {
    strategy.processes()->run({});  // who still looks at it
    strategy.processes()->on_chief("folder", [&] { return fs::remove_all(folder), std::string(); });
  }
  fs::path folder;
};

using Steps = std::vector<Numbers>;
template <class Distributed>
Steps steps_of(const Distributed& distributed) {
  Steps steps;
  for (const auto& step : distributed) {
    Numbers& values = steps.emplace_back();
    for (const Tensor& value : step) values.push_back(numbers(value));
  }
  return steps;
}

// What process `rank` gets of the steps of one process with as many replicas: its part of the data is every n-th slice.
Steps own_part(const Steps& all, int rank, int num_processes) {
  Steps own;
  for (const Numbers& step : all) {
    Numbers& values = own.emplace_back();
    for (int r = 0; r < kDevices; ++r) values.push_back(step[static_cast<size_t>(rank + r * num_processes)]);
  }
  return own;
}

TEST_F(MultiWorkerInput, IsThatOfOneProcessWithAsManyReplicas) {
  for (const int64_t n : {0, 1, 3, 7, 16, 21}) {
    const auto dataset = data::range(n).batch(8);
    EXPECT_EQ(steps_of(strategy.distribute(dataset)),
              own_part(steps_of(one_process.distribute(dataset)), rank(), size()))
        << n;
  }
  const Tensor tensor = at::arange(11);
  const auto whole = one_process.distribute(tensor), own = strategy.distribute(tensor);
  for (int r = 0; r < kDevices; ++r)
    EXPECT_EQ(numbers(own[static_cast<size_t>(r)]), numbers(whole[static_cast<size_t>(rank() * kDevices + r)]));
}

TEST_F(MultiWorkerInput, GivesZeroRowsToAProcessWhoseDataWasEmptyFromTheStart) {
  const auto distributed = strategy.distribute_datasets_from_function([&](const data::InputContext& context) {
    EXPECT_EQ(context.num_input_pipelines, size());
    EXPECT_EQ(context.input_pipeline_id, rank());
    EXPECT_EQ(context.num_replicas_in_sync, size() * kDevices);
    return data::range(context.input_pipeline_id == 0 ? 5 : 0)
        .map([](const Tensor& x) { return x.expand({3}); })
        .batch(2);
  });
  int64_t rows = 0, steps = 0;
  for (const auto& step : distributed) {
    ++steps;
    for (const Tensor& value : step) {
      EXPECT_EQ(value.sizes().slice(1), at::IntArrayRef({3}));
      rows += value.size(0);
    }
  }
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(rows, rank() == 0 ? 5 : 0);
}

TEST_F(MultiWorkerInput, TellsAllProcessesThatTheDataOfOneHasFailedAndGoesOn) {
  const auto fails = [&](const Tensor& x) {
    if (rank() == 0 && x.item<int64_t>() == 9) throw std::domain_error("nine");
    return x;
  };
  const auto distributed = strategy.distribute(data::range(32).map(fails).batch(4));
  int steps = 0, failures = 0;
  for (auto iterator = distributed.begin();; ++steps) try {
      if (!iterator.next_as_optional()) break;
    } catch (const std::domain_error&) {
      ++failures;
      EXPECT_EQ(rank(), 0);
    } catch (const Error& error) {
      ++failures;
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
      EXPECT_NE(rank(), 0);
    }
  EXPECT_EQ(failures, 1);
  EXPECT_GE(steps, 8);
}

TEST_F(MultiWorkerInput, KeepsThePlaceOfEveryProcess) {
  const auto dataset = strategy.distribute(data::range(40).shuffle(10, {.seed = 3}).batch(8));
  auto iterator = dataset.begin();
  ++iterator, ++iterator;
  const Tensor state = iterator.save_state();
  const auto rest = [](auto& iterator) {
    Numbers rows;
    while (const auto step = iterator.next_as_optional())
      for (const Tensor& value : *step) rows.push_back(numbers(value));
    return rows;
  };
  auto restored = dataset.begin();
  restored.restore_state(state);
  EXPECT_EQ(rest(restored), rest(iterator));
  auto alone = one_process.distribute(data::range(40).batch(8)).begin();
  EXPECT_THAT(error_of([&] { alone.restore_state(state); }), HasSubstr(str("saved by ", size(), " processes")));
}

void compile(const keras::Sequential& model) {
  using namespace keras;
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01, .global_clipnorm = 0.5}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy({.name = "accuracy"})}});
}

// Whose numbers do not depend on which replica has which samples.
keras::Sequential make_model() {
  using namespace keras;
  const Sequential model(
      {layers::Dense({.units = 6}), layers::Dense({.units = 3, .kernel_regularizer = regularizers::L2(0.01)})});
  compile(model);
  return model;
}

// Whose numbers do. Without a bias before the normalization: its gradient is rounding, which Adam would make steps of.
keras::Sequential make_model_of_replicas() {
  using namespace keras;
  const Sequential model({layers::Dense({.units = 6, .use_bias = false}), layers::BatchNormalization(),
                          layers::Dropout({.rate = 0.2}), layers::Dense({.units = 3})});
  compile(model);
  return model;
}

struct Trained {
  std::vector<keras::History> histories;
  keras::Logs evaluation;
  Tensor predictions;
  std::vector<Tensor> weights;
};

// 22 samples in batches of 8: the last one is short, and leaves replicas with little or nothing.
Trained train(Strategy& strategy, keras::Sequential (*make)(), bool as_dataset) {
  set_random_seed(3);
  const Tensor x = at::randn({22, 5}), y = at::randint(3, {22}, at::kLong);
  const keras::Sequential model = strategy.build(make);
  const auto batches = data::from_tensor_slices(x, y).batch(8);
  constexpr auto kSilent = keras::Verbose::silent;
  Trained trained;
  if (as_dataset)
    trained.histories.push_back(model.fit(batches, {.epochs = 3, .verbose = kSilent, .validation_data = batches}));
  trained.histories.push_back(
      model.fit(x, y, {.batch_size = 8, .epochs = 2, .verbose = kSilent, .class_weight = {{1, 2.0}}}));
  trained.evaluation = model.evaluate(x, y, {.batch_size = 8, .verbose = kSilent});
  trained.predictions = model.predict(x, {.batch_size = 8});
  trained.weights = model.get_weights();
  return trained;
}

void expect_near(const Trained& ours, const Trained& expected) {
  for (size_t i = 0; i < expected.histories.size(); ++i) {
    ASSERT_EQ(ours.histories[i].history.size(), expected.histories[i].history.size());
    for (const auto& [name, values] : expected.histories[i].history)
      for (size_t epoch = 0; epoch < values.size(); ++epoch)
        EXPECT_NEAR(ours.histories[i].history.at(name).at(epoch), values[epoch], 1e-5) << name;
  }
  for (const auto& [name, value] : expected.evaluation) EXPECT_NEAR(ours.evaluation.at(name), value, 1e-5) << name;
  EXPECT_TRUE(at::allclose(ours.predictions, expected.predictions, 1e-4, 1e-4));
  for (size_t i = 0; i < expected.weights.size(); ++i)
    EXPECT_TRUE(at::allclose(ours.weights[i], expected.weights[i], 1e-4, 1e-5)) << i;
}

TEST_F(MultiWorkerFit, GivesTheNumbersOfOneProcessWithAsManyReplicas) {
  expect_near(train(strategy, make_model, true), train(one_process, make_model, true));
  const Trained ours = train(strategy, make_model_of_replicas, false);
  expect_near(ours, train(one_process, make_model_of_replicas, false));
  for (const auto& of_rank : gather_tensors(*strategy.processes(), ours.weights, "weights"))
    for (size_t i = 0; i < of_rank.size(); ++i) EXPECT_TRUE(at::equal(of_rank[i], ours.weights[i])) << i;
}

keras::Sequential make_model_of_images() {
  using namespace keras;
  const Sequential model({layers::RandomHue({.factor = 0.7, .value_range = {0, 1}, .seed = 1}),
                          layers::RandomErasing({.scale = {0.1, 0.5}, .value_range = {0, 1}, .seed = 2}),
                          layers::Flatten(), layers::Dense({.units = 1})});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  return model;
}

TEST_F(MultiWorkerFit, ChangesEachImageAsOneProcessDoes) {
  const auto losses = [](Strategy& trained_by) {
    set_random_seed(5);
    const Tensor x = at::rand({22, 4, 4, 3}), y = at::rand({22, 1});
    const keras::Sequential model = trained_by.build(make_model_of_images);
    return model.fit(x, y, {.batch_size = 8, .epochs = 2, .verbose = keras::Verbose::silent, .shuffle = false})
        .history.at("loss");
  };
  const std::vector<double> ours = losses(strategy), expected = losses(one_process);
  for (size_t epoch = 0; epoch < expected.size(); ++epoch) EXPECT_NEAR(ours[epoch], expected[epoch], 1e-5) << epoch;
}

TEST_F(MultiWorkerFit, DrawsAnewForEachReplicaOfEachProcessInALoopOfOnesOwn) {
  const keras::layers::RandomHue layer({.factor = 0.7, .value_range = {0, 1}, .seed = 1});
  const Tensor image = at::arange(12, at::kFloat).reshape({1, 2, 2, 3}) / 12;
  const PerReplica<Tensor> own = strategy.run([&] { return layer(image, {.training = true}); });
  std::set<std::vector<double>> seen;
  for (const auto& of_rank : gather_tensors(*strategy.processes(), own.values(), "images"))
    for (const Tensor& changed : of_rank) seen.insert(numbers(changed));
  EXPECT_EQ(seen.size(), static_cast<size_t>(size() * kDevices));
}

TEST_F(MultiWorkerFit, StopsEverywhereWhereACallbackOfOneProcessStops) {
  const keras::Sequential model = strategy.build(make_model);
  const auto stop = keras::callbacks::LambdaCallback(
      {.on_train_batch_end = [&](keras::callbacks::TrainingState& state, int64_t batch, const keras::RunningLogs&) {
        if (rank() == size() - 1 && batch == 1) state.stop_training = true;
      }});
  int64_t batches = 0;
  const auto count =
      keras::callbacks::LambdaCallback({.on_train_batch_end = [&](auto&, int64_t, const auto&) { ++batches; }});
  model.fit(at::ones({40, 5}), at::zeros({40}, at::kLong),
            {.batch_size = 8, .epochs = 3, .verbose = keras::Verbose::silent, .callbacks = {stop, count}});
  EXPECT_EQ(batches, 2);
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run([&] { return batches; })), 2 * size() * kDevices);
}

TEST_F(MultiWorkerFit, SumsMetricsOfCustomLoops) {
  const keras::metrics::Mean mean;
  strategy.run([&] {
    const double id = get_replica_context().replica_id_in_sync_group();
    mean.update_state(at::full({2}, id));
  });
  EXPECT_NEAR(mean.result().item<double>(), (size() * kDevices - 1) / 2.0, 1e-12);
}

TEST_F(MultiWorkerCheckpoint, WritesFilesOfCallbacksInTheChiefAlone) {
  const keras::Sequential model = strategy.build(make_model);
  const auto x = at::ones({16, 5}), y = at::zeros({16}, at::kLong);
  model.fit(x, y,
            {.epochs = 2,
             .verbose = keras::Verbose::silent,
             .callbacks = {keras::callbacks::CSVLogger({.filename = folder / str("log_", rank())})}});
  strategy.processes()->run({});
  for (int r = 0; r < size(); ++r) EXPECT_EQ(fs::exists(folder / str("log_", r)), r == 0);
}

struct Loop {
  Variable w;
  Tensor buffer;
  int64_t step = 0;
};

void run_steps(MultiWorkerMirroredStrategy& strategy, Loop& loop, int steps) {
  for (int i = 0; i < steps; ++i, ++loop.step) {
    strategy.run([&] {
      const Tensor noise = at::randn({4});
      loop.buffer.copy_(noise);
      (loop.w * noise).sum().backward();
    });
    const at::NoGradGuard no_grad;
    Tensor(loop.w).sub_(loop.w.grad(), 0.1);
    Tensor(loop.w).mutable_grad().reset();
  }
}

TEST_F(MultiWorkerCheckpoint, GoesOnBitForBitWhereItWasSaved) {
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async);
    const auto make = [&] { return Loop{variable(at::ones({4})), at::zeros({4})}; };
    const fs::path path = folder / (async ? "async" : "sync");
    Loop loop = strategy.build(make);
    {
      CheckpointManager manager(Checkpoint({{"w", loop.w}, {"buffer", loop.buffer}, {"step", loop.step}}), path,
                                {.async = async});
      EXPECT_FALSE(manager.restore_or_initialize());
      run_steps(strategy, loop, 3);
      const fs::path saved = manager.save();
      EXPECT_EQ(saved, path / "ckpt-1");
      run_steps(strategy, loop, 2);
      manager.wait();
      EXPECT_EQ(manager.latest_checkpoint(), saved);
    }
    Loop again = strategy.build(make);
    set_random_seed(99);
    CheckpointManager manager(Checkpoint({{"w", again.w}, {"buffer", again.buffer}, {"step", again.step}}), path,
                              {.async = async});
    EXPECT_TRUE(manager.restore_or_initialize());
    EXPECT_EQ(again.step, 3);
    run_steps(strategy, again, 2);
    EXPECT_TRUE(at::equal(gather(again.w), gather(loop.w)));
    EXPECT_TRUE(at::equal(gather(again.buffer), gather(loop.buffer)));
    check_in_sync(again.w);
  }
}

TEST_F(MultiWorkerCheckpoint, ThrowsTheChiefsErrorInAllProcesses) {
  const Variable w = strategy.build([] { return variable(at::ones({4})); });
  strategy.processes()->on_chief("file", [&] { return std::ofstream(folder / "taken") << "x", std::string(); });
  EXPECT_THAT(error_of([&] { Checkpoint({{"w", w}}).write(folder / "taken"); }), HasSubstr("already_exists"));
  EXPECT_THAT(error_of([&] {
                CheckpointManager(Checkpoint({{"w", w}}), folder / "taken").save();
              }),
              HasSubstr("taken"));
  Checkpoint({{"w", w}}).write(folder / "free");
  EXPECT_TRUE(fs::exists(folder / "free"));
}

}  // namespace
}  // namespace tutti
