// Training under a ParameterServerStrategy without a cluster: one worker gives one device's numbers, step by step.
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watchdog.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/data/counter.h"
#include "tutti/data/dataset.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/keras/callbacks/model_checkpoint.h"
#include "tutti/keras/dataset_creator.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/sequential.h"
#include "tutti/keras/sidecar_evaluator.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::equivalence {
namespace {

constexpr int kSteps = 12;

struct Rows {
  Tensor ids;     // int64 [B]
  Tensor target;  // float32 [B]
};

Rows rows_of_step(int64_t step) {
  const auto ids = (torch::arange(8) * (step + 3)) % 50;
  return {ids, torch::sin(ids.to(torch::kFloat32) + 1)};
}

// A module of LibTorch as programs have them.
struct TableNet : torch::nn::Module {
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear out{nullptr};

  TableNet() {
    table = register_module("table", torch::nn::Embedding(50, 4));
    out = register_module("out", torch::nn::Linear(4, 1));
  }
  Tensor forward(const Rows& rows) { return out(table(rows.ids)).squeeze(1); }
  Tensor losses(const Rows& rows) { return (forward(rows) - rows.target).square(); }
};

std::shared_ptr<TableNet> make_net() {
  torch::manual_seed(3);
  return std::make_shared<TableNet>();
}

std::vector<double> one_device(const std::function<void(const std::shared_ptr<TableNet>&, const Tensor& loss)>& step) {
  const auto net = make_net();
  std::vector<double> losses;
  for (int i = 0; i < kSteps; ++i) {
    const Tensor loss = net->losses(rows_of_step(i)).mean();
    step(net, loss);
    losses.push_back(loss.item<double>());
  }
  return losses;
}

struct Worker {
  explicit Worker(size_t replicas = 1)
      : strategy({.cluster_resolver = cluster::ClusterResolver(),
                  .variable_partitioner = FixedShardsPartitioner(3),
                  .devices = configure_logical_cpus(replicas)}) {}

  // The losses of scheduled steps. `apply` updates net's weights in a replica.
  template <class Apply>
  std::vector<double> losses(const std::shared_ptr<TableNet>& net, Apply apply) {
    ClusterCoordinator coordinator(strategy);
    const auto dataset = coordinator.create_per_worker_dataset([&] {
      return strategy.distribute(data::counter().map([](const Tensor& step) {
        const Rows rows = rows_of_step(step.item<int64_t>());
        return std::tuple(rows.ids, rows.target);
      }));
    });
    const auto iterator = dataset.iterator();
    const auto step = coordinator.function("step", [&](data::DistributedIterator<std::tuple<Tensor, Tensor>>& batches) {
      const auto results = strategy.run(
          [&](const Tensor& ids, const Tensor& target) {
            const Tensor loss = compute_average_loss(net->losses({ids, target}));
            apply(loss);
            return loss.detach();
          },
          batches.next());
      return strategy.reduce(ReduceOp::sum, results).template item<double>();
    });
    return coordinator.run([&] {
      std::vector<RemoteValue<double>> losses;
      for (int i = 0; i < kSteps; ++i) losses.push_back(coordinator.schedule(step, iterator));
      return coordinator.fetch(losses);
    });
  }

  const Watchdog watchdog{std::chrono::seconds(120)};
  ParameterServerStrategy strategy;
};

TEST(ParameterServer, OneWorkerGivesOneDevicesLossesWithLibTorchsOptimizers) {
  std::unique_ptr<torch::optim::Adam> plain;
  const auto expected = one_device([&](const auto& net, const Tensor& loss) {
    if (!plain) plain.reset(new torch::optim::Adam(net->parameters(), 0.05));
    plain->zero_grad();
    loss.backward();
    plain->step();
  });
  Worker worker;
  const auto net = worker.strategy.build(make_net);
  Optimizer optimizer(torch::optim::Adam(net->parameters(), 0.05));
  const auto losses = worker.losses(net, [&](const Tensor& loss) {
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  });
  EXPECT_EQ(losses, expected);
  EXPECT_LT(losses.back(), losses.front());
}

TEST(ParameterServer, OneWorkerGivesOneDevicesLossesWithKerassOptimizers) {
  std::optional<keras::optimizers::Adagrad> plain;
  const auto expected = one_device([&](const auto& net, const Tensor& loss) {
    if (!plain) plain.emplace(keras::optimizers::AdagradOptions{.learning_rate = 0.1});
    plain->apply_gradients(gradients(loss, net->parameters()), net->parameters());
  });
  Worker worker;
  const auto net = worker.strategy.build(make_net);
  const keras::optimizers::Adagrad optimizer({.learning_rate = 0.1});
  const auto losses = worker.losses(net, [&](const Tensor& loss) {
    optimizer.apply_gradients(gradients(loss, net->parameters()), net->parameters());
  });
  EXPECT_EQ(losses, expected);
}

TEST(ParameterServer, AWorkersReplicasShareItsBatch) {
  Worker one, two(2);
  std::vector<std::vector<double>> losses;
  for (Worker* worker : {&one, &two}) {
    const auto net = worker->strategy.build(make_net);
    const keras::optimizers::Adam optimizer({.learning_rate = 0.05});
    losses.push_back(worker->losses(net, [&](const Tensor& loss) {
      optimizer.apply_gradients(gradients(loss, net->parameters()), net->parameters());
    }));
  }
  for (int i = 0; i < kSteps; ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5);
}

TEST(ParameterServer, ACheckpointTakesAnyNumberOfShards) {
  const TemporaryFolder folder;
  Worker worker;
  const auto net = worker.strategy.build(make_net);
  Checkpoint({{"net", *net}}).write(folder / "c");
  const auto whole = make_net();
  {
    const torch::NoGradGuard no_grad;
    whole->table->weight.zero_();
  }
  Checkpoint({{"net", *whole}}).restore(folder / "c").expect_partial();
  EXPECT_TRUE(torch::equal(whole->table->weight, worker.strategy.shards(net->table->weight).value()));
}

using Samples = std::tuple<Tensor, Tensor>;

data::Dataset<Samples> samples() {
  return data::counter().map([](const Tensor& step) {
    const Rows rows = rows_of_step(step.item<int64_t>());
    return Samples(rows.ids.unsqueeze(1), rows.target.unsqueeze(1));
  });
}

keras::Sequential make_table_model() {
  keras::Sequential model({keras::layers::Embedding({.input_dim = 50, .output_dim = 4}), keras::layers::Flatten(),
                           keras::layers::Dense({.units = 1})});
  model.compile(
      {.optimizer = keras::optimizers::Adagrad({.learning_rate = 0.1}), .loss = keras::losses::MeanSquaredError()});
  return model;
}

TEST(ParameterServer, FitEvaluateAndPredictGiveOneDevicesNumbers) {
  const keras::FitOptions options{.epochs = 3, .verbose = keras::Verbose::silent, .steps_per_epoch = 5};
  const auto run = [&](const keras::Sequential& model, const keras::Batches& batches) {
    auto numbers = model.fit(batches, options).history.at("loss");
    numbers.push_back(
        model.evaluate(keras::Batches(samples().take(3)), {.verbose = keras::Verbose::silent}).at("loss"));
    numbers.push_back(model.predict(keras::Tensors(rows_of_step(1).ids.unsqueeze(1))).sum().item<double>());
    return numbers;
  };
  set_random_seed(5);
  const auto expected = run(make_table_model(), samples());
  Worker worker;
  set_random_seed(5);
  const auto model = worker.strategy.build(make_table_model);
  int calls = 0;
  const auto creator = keras::DatasetCreator([&](const data::InputContext& context) {
    EXPECT_EQ(context.num_input_pipelines, 1);
    ++calls;
    return samples();
  });
  EXPECT_EQ(run(model, creator), expected);
  EXPECT_GE(calls, 1);
}

TEST(ParameterServer, FitSaysWhatItNeeds) {
  const auto code = [](int workers, std::optional<int64_t> steps) {
    ParameterServerStrategy strategy(
        {.cluster_resolver = cluster::ClusterResolver(), .devices = configure_logical_cpus(1), .workers = workers});
    const auto model = strategy.build(make_table_model);
    return code_of([&] { model.fit(keras::Batches(samples().take(2)), {.steps_per_epoch = steps}); });
  };
  EXPECT_EQ(code(1, {}), ErrorCode::invalid_argument);
  EXPECT_EQ(code(2, 2), ErrorCode::unimplemented);
}

TEST(ParameterServer, ASidecarEvaluatesTheCheckpointsOfFit) {
  const TemporaryFolder folder;
  Worker worker;
  const auto model = worker.strategy.build(make_table_model);
  std::thread training([&] {
    model.fit(
        keras::Batches(samples()),
        {.epochs = 3,
         .verbose = keras::Verbose::silent,
         .callbacks = {keras::callbacks::ModelCheckpoint({.filepath = (folder / "fit").string() + "/ckpt-{epoch}"})},
         .steps_per_epoch = 5});
  });
  const auto beside = make_table_model();
  beside.predict(keras::Tensors(rows_of_step(1).ids.unsqueeze(1)));  // builds it
  const keras::Batches data(samples().take(2));
  keras::SidecarEvaluator evaluator(
      beside,
      {.data = data, .checkpoint_dir = folder / "fit", .max_evaluations = 3, .poll = std::chrono::milliseconds(5)});
  const auto logs = evaluator.start();
  training.join();
  EXPECT_EQ(logs.at("loss"), model.evaluate(data, {.verbose = keras::Verbose::silent}).at("loss"));
}

TEST(ParameterServer, ACopyOfAVariableIsNotWrittenInPlace) {
  Worker worker(2);
  const auto net = worker.strategy.build(make_net);
  ClusterCoordinator coordinator(worker.strategy);
  const auto write = coordinator.function("write", [&] {
    worker.strategy.run([&] {
      const torch::NoGradGuard no_grad;
      net->table->weight.zero_();
    });
  });
  EXPECT_THROW(coordinator.run([&] { coordinator.schedule(write); }), Error);
}

}  // namespace
}  // namespace tutti::equivalence
