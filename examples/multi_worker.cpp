// Synchronous training by several processes. The program is that of one device but for the strategy; every process runs
// all of it. First Model::fit on MNIST, then a custom loop that survives being killed at any moment.
//
//   tutti launch -n 4 multi_worker --checkpoints DIR       four processes on this machine
//   tutti launch -n 4 --restarts 3 multi_worker …          the same, started again when one dies
//   tutti launch -n 4 --min 2 --restarts 3 multi_worker --elastic …   the others go on when one dies, which comes back
//   TF_CONFIG='{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}' multi_worker …
//   srun -n 8 multi_worker …     mpirun -n 8 multi_worker …     torchrun --no-python --nproc-per-node 4 multi_worker …
//   mpirun -n 8 multi_worker --by mpi …                    the same, whose sums travel by MPI
//   multi_worker --checkpoints DIR --replicas 4            without a cluster: one process, the same losses
//
// Only the chief prints. Its last lines depend on the number of replicas alone, up to the order of sums:
//   test accuracy: 0.97…
//   after 2000 steps: loss 0.0…
#include <tutti/tutti.h>

#include <CLI/CLI.hpp>
#include <iostream>

using namespace tutti;
namespace layers = keras::layers;
using keras::activations::relu;

static void fit_mnist(MultiWorkerMirroredStrategy& strategy, const std::string& data_dir,
                      const std::string& checkpoint_dir) {
  // The global batch; each process reads its part of the data (by file or by element, as AutoShardPolicy says).
  const int64_t batch_size = 32 * strategy.num_replicas_in_sync();
  const auto scale = [](const Tensor& image, const Tensor& label) {
    return std::tuple(image.to(torch::kFloat32) / 255, label);
  };
  const auto [train, test] = data::load_mnist(data_dir);
  const auto train_batches =
      train.map(scale).cache().shuffle(10'000, {.seed = 1}).batch(batch_size);  // one order in all processes
  const auto test_batches = test.map(scale).batch(batch_size);

  auto model = strategy.build([] {
    keras::Sequential built({
        layers::InputLayer({.shape = {28, 28, 1}}),  // built at once: a backup can be restored before the first batch
        layers::Conv2D({.filters = 32, .kernel_size = {3, 3}, .activation = relu}),
        layers::MaxPooling2D(),
        layers::Flatten(),
        layers::Dense({.units = 10}),
    });
    built.compile({.optimizer = keras::optimizers::Adam({.learning_rate = 1e-3}),
                   .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {keras::metrics::SparseCategoricalAccuracy({.name = "accuracy"})}});
    return built;
  });
  // Callbacks run in every process, on numbers reduced over all; those that write files write in the chief alone, or,
  // as checkpoints do, together. A decision to stop is the same everywhere because the numbers are.
  model.fit(train_batches,
            {.epochs = 3,
             .callbacks = {keras::callbacks::BackupAndRestore({.backup_dir = checkpoint_dir + "/backup"}),
                           keras::callbacks::EarlyStopping({.monitor = "val_loss", .patience = 1})},
             .validation_data = test_batches});
  const auto logs = model.evaluate(test_batches);
  if (strategy.is_chief()) std::cout << "test accuracy: " << logs.at("accuracy") << '\n';
}

static void custom_loop(MultiWorkerMirroredStrategy& strategy, const std::string& checkpoint_dir, int64_t steps) {
  auto net = strategy.build([] {
    return torch::nn::Sequential(torch::nn::Linear(20, 32), torch::nn::Dropout(0.1), torch::nn::Linear(32, 1));
  });
  torch::optim::Adam optimizer(net->parameters(), 1e-3);
  torch::manual_seed(7);  // the same data in every process
  const auto features = torch::randn({4096, 20});
  auto batches = strategy.distribute(data::from_tensor_slices(features, features.sum(1, /*keepdim=*/true))
                                         .shuffle(1024, {.seed = 2})
                                         .repeat()
                                         .batch(64));
  auto iterator = batches.begin();
  int64_t step = 0;
  Tensor loss;

  // All processes write one checkpoint together: each its part, then one commit.
  CheckpointManager manager(Checkpoint({{"net", *net}, {"optimizer", optimizer}, {"data", iterator}, {"step", step}}),
                            checkpoint_dir + "/loop", {.max_to_keep = 3, .async = true});
  // SIGTERM to any process: all save after the same step, and exit with 143, which launchers start again.
  PreemptionCheckpointHandler preemption(manager);  // restores the newest checkpoint
  for (; step < steps; ++step, ++iterator) {
    if (step % 100 == 0) manager.save();
    preemption.run([&] {
      optimizer.zero_grad();
      const auto losses = strategy.run(
          [&](const Tensor& x, const Tensor& y) {
            auto share = compute_average_loss((net->forward(x) - y).square());  // divided by the global batch
            share.backward();
            return share.detach();
          },
          *iterator);
      torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);  // of the sum over all replicas of all processes
      optimizer.step();
      loss = strategy.reduce(ReduceOp::sum, losses);
    });
  }
  manager.save();
  const auto last = loss.defined() ? loss.item<double>() : 0.0;
  if (strategy.is_chief()) std::cout << "after " << step << " steps: loss " << last << '\n';
}

// The same loop where processes may be lost and others may join while it runs.
static void elastic_loop(MultiWorkerMirroredStrategy& strategy, int64_t steps) {
  auto net = strategy.build([] { return torch::nn::Linear(20, 1); });
  torch::optim::SGD optimizer(net->parameters(), 1e-2);
  int64_t step = 0;
  Elastic elastic(strategy, Checkpoint({{"net", net}, {"optimizer", optimizer}, {"step", step}}), {.min_processes = 2});
  elastic.run([&] {
    const auto features = torch::randn({4096, 20});
    auto batches = strategy.distribute(data::from_tensor_slices(features, features.sum(1, true)).repeat().batch(64));
    auto iterator = batches.begin();
    for (; step < steps; ++step, ++iterator) {
      elastic.commit();
      optimizer.zero_grad();
      strategy.run(
          [&](const Tensor& x, const Tensor& y) { compute_average_loss((net->forward(x) - y).square()).backward(); },
          *iterator);
      optimizer.step();
    }
  });
  if (strategy.is_chief()) std::cout << "elastic: " << step << " steps\n";
}

int main(int argc, char** argv) {
  CLI::App app{"training by several processes"};
  std::string checkpoint_dir, data_dir = TUTTI_EXAMPLES_DATA "/mnist";
  int replicas = 1;
  int64_t steps = 2000;
  bool elastic = false;
  auto by = CommunicationImplementation::auto_;
  app.add_option("--checkpoints", checkpoint_dir, "a folder that all processes see")->required();
  app.add_option("--data", data_dir, "folder with the four IDX files");
  app.add_option("--replicas", replicas, "devices of each process");
  app.add_option("--steps", steps, "of the custom loop");
  app.add_flag("--elastic", elastic, "go on when processes are lost");
  app.add_option("--by", by, "how bytes travel between processes: auto, ring or mpi")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, CommunicationImplementation>{{"auto", CommunicationImplementation::auto_},
                                                             {"ring", CommunicationImplementation::ring},
                                                             {"mpi", CommunicationImplementation::mpi}}));
  CLI11_PARSE(app, argc, argv);

  tune_allocator();
  set_random_seed(1);
  MultiWorkerMirroredStrategy strategy({.devices = configure_logical_cpus(replicas),  // waits for the others
                                        .communication_options = {.implementation = by}});
  if (strategy.is_chief()) std::cout << "Number of devices: " << strategy.num_replicas_in_sync() << '\n';
  if (elastic) {
    elastic_loop(strategy, steps);
    return 0;
  }
  fit_mnist(strategy, data_dir, checkpoint_dir);
  custom_loop(strategy, checkpoint_dir, steps);
}
