// Asynchronous training with parameter servers: which films will a user like? The tables of users, films and words are
// too wide to be copied to each worker; only the rows that a batch names travel. Clicks are made up, by a rule that the
// model has to find.
//
//   tutti launch --ps 2 --workers 2 --chief parameter_server --checkpoints DIR
//   tutti launch --ps 2 --workers 2 --chief --evaluator parameter_server --checkpoints DIR
//   TF_CONFIG='{"cluster": {"chief": ["a:2222"], "worker": ["b:2222", "c:2222"], "ps": ["d:2222"]},
//               "task": {"type": "worker", "index": 1}}' parameter_server …
//   parameter_server --checkpoints DIR            without a cluster: one worker and one server in this process
//
// The chief prints (figures differ from run to run, as updates come in any order):
//   epoch 1: loss 0.6…, 200 steps
//   …
//   accuracy of new clicks: 0.7…
//   fit: accuracy 0.7…
#include <tutti/tutti.h>

#include <CLI/CLI.hpp>
#include <iostream>

using namespace tutti;
namespace layers = keras::layers;

namespace {

constexpr int64_t kUsers = 100'000, kFilms = 20'000, kWords = 50'000, kWordsOfAClick = 8;

struct Clicks {
  Tensor user;   // int64 [B]
  Tensor film;   // int64 [B]
  Tensor words;  // int64 [B, kWordsOfAClick], of the review
  Tensor liked;  // float32 [B], 0 or 1
};

// A number in [-1, 1] of each id. A few ids are frequent, most are rare.
Tensor taste(const Tensor& id, double salt) { return torch::sin(id.to(torch::kFloat64) * 12.9898 + salt); }

Clicks make_clicks(int64_t seed, int64_t size) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  const auto ids = [&](at::IntArrayRef sizes, int64_t n) {
    return (torch::rand(sizes, generator, torch::kFloat64).pow(8) * static_cast<double>(n)).to(torch::kLong);
  };
  Clicks clicks{ids({size}, kUsers), ids({size}, kFilms), ids({size, kWordsOfAClick}, kWords), {}};
  const auto score = taste(clicks.user, 1) + taste(clicks.film, 2) + taste(clicks.words, 3).mean(1);
  clicks.liked = score.gt(0).to(torch::kFloat32);
  return clicks;
}

// Without end; every pipeline (each worker has one) has clicks of its own.
data::Dataset<Clicks> clicks(const data::InputContext& context, int64_t batch_size) {
  const int64_t first = 1'000'000LL * context.input_pipeline_id;
  return data::counter(first).map(
      [batch_size](const Tensor& seed) { return make_clicks(seed.item<int64_t>(), batch_size); });
}

// An ordinary LibTorch module. That its tables are cut into pieces which lie on servers is the strategy's affair.
struct Taste : torch::nn::Module {
  torch::nn::Embedding users{nullptr}, films{nullptr};
  torch::nn::EmbeddingBag words{nullptr};
  torch::nn::Linear hidden{nullptr}, out{nullptr};

  Taste() {
    users = register_module("users", torch::nn::Embedding(kUsers, 16));
    films = register_module("films", torch::nn::Embedding(kFilms, 16));
    words = register_module("words",
                            torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(kWords, 16).mode(torch::kMean)));
    hidden = register_module("hidden", torch::nn::Linear(48, 32));
    out = register_module("out", torch::nn::Linear(32, 1));
  }
  Tensor forward(const Clicks& batch) {
    const auto x = torch::cat({users(batch.user), films(batch.film), words(batch.words)}, 1);
    return out(torch::relu(hidden(x))).squeeze(1);
  }
};

struct StepResult {
  Tensor loss;     // []
  Tensor correct;  // int64 []
};

struct Options {
  std::string checkpoint_dir;
  int64_t epochs = 5, steps_per_epoch = 200, batch_size = 512;
  int replicas = 1;
};

void custom_loop(ParameterServerStrategy& strategy, const Options& options) {
  // Every task makes these. Weights are drawn by the servers that keep them; here they are handles.
  auto [net, optimizer] = strategy.build([] {
    auto made = std::make_shared<Taste>();
    keras::optimizers::Adagrad adagrad({.learning_rate = 0.1});
    adagrad.build(
        made->parameters());  // its slots lie beside the variables; a checkpoint can be restored before the first step
    return std::pair(made, adagrad);
  });
  ClusterCoordinator coordinator(strategy);

  auto dataset = coordinator.create_per_worker_dataset([&] {
    return strategy.distribute_datasets_from_function(
        [&](const data::InputContext& context) { return clicks(context, options.batch_size); });
  });
  const auto iterator = dataset.iterator();

  // What a worker does: pull, compute, push. Captures are the worker's own objects, made by the same lines.
  const auto train_step = coordinator.function(
      "train_step", [&, &net = net, &optimizer = optimizer](data::DistributedIterator<Clicks>& batches) {
        const auto results = strategy.run(
            [&](const Clicks& batch) {
              const auto logits = net->forward(batch);
              const auto loss = compute_average_loss(
                  torch::binary_cross_entropy_with_logits(logits, batch.liked, {}, {}, at::Reduction::None));
              const auto weights = net->parameters();
              optimizer.apply_gradients(gradients(loss, weights), weights);  // the servers apply them
              return StepResult{loss.detach(), logits.gt(0).eq(batch.liked.gt(0)).sum()};
            },
            batches.next());
        return strategy.reduce(ReduceOp::sum, results);  // over this worker's replicas
      });
  const auto test_step = coordinator.function("test_step", [&, &net = net](int64_t seed) {
    const torch::NoGradGuard no_grad;
    const auto batch = make_clicks(seed, options.batch_size);
    return net->forward(batch).gt(0).eq(batch.liked.gt(0)).sum().item<int64_t>();
  });

  int64_t epoch = 0;
  CheckpointManager manager(Checkpoint({{"net", *net}, {"optimizer", optimizer}, {"epoch", epoch}}),
                            options.checkpoint_dir + "/loop", {.max_to_keep = 3, .async = true});

  const double accuracy = coordinator.run([&] {  // the coordinator's part; the others serve meanwhile
    manager.restore_or_initialize();             // into the servers, whatever their number was
    for (; epoch < options.epochs; ++epoch) {
      std::vector<RemoteValue<StepResult>> steps;
      for (int64_t i = 0; i < options.steps_per_epoch; ++i) steps.push_back(coordinator.schedule(train_step, iterator));
      coordinator.join();  // throws what a step threw; unavailable where a server is lost
      double loss = 0;
      for (const StepResult& step : coordinator.fetch(steps)) loss += step.loss.item<double>();
      std::cout << "epoch " << epoch + 1 << ": loss " << loss / static_cast<double>(steps.size()) << ", "
                << steps.size() << " steps\n";
      manager.save();
    }
    std::vector<RemoteValue<int64_t>> tests;
    for (int64_t i = 0; i < 20; ++i) tests.push_back(coordinator.schedule(test_step, -1 - i));
    int64_t correct = 0;
    for (const int64_t n : coordinator.fetch(tests)) correct += n;
    return static_cast<double>(correct) / static_cast<double>(20 * options.batch_size);
  });
  // From here on every task goes on, with the coordinator's result.
  if (strategy.is_coordinator()) std::cout << "accuracy of new clicks: " << accuracy << '\n';
}

keras::Model make_model() {
  const auto user = keras::Input({.shape = {}, .name = "user"});
  const auto film = keras::Input({.shape = {}, .name = "film"});
  const auto x = layers::Concatenate()({layers::Embedding({.input_dim = kUsers, .output_dim = 16})(user),
                                        layers::Embedding({.input_dim = kFilms, .output_dim = 16})(film)});
  keras::Model model({.inputs = {user, film},
                      .outputs = {layers::Dense({.units = 1, .activation = keras::activations::sigmoid})(
                          layers::Dense({.units = 32, .activation = keras::activations::relu})(x))},
                      .name = "taste"});
  model.compile({.optimizer = keras::optimizers::Adagrad({.learning_rate = 0.1}),
                 .loss = keras::losses::BinaryCrossentropy(),
                 .metrics = {keras::metrics::BinaryAccuracy({.name = "accuracy"})}});
  return model;
}

using Samples = std::tuple<std::tuple<Tensor, Tensor>, Tensor>;
data::Dataset<Samples> samples(const data::InputContext& context, int64_t batch_size) {
  return clicks(context, batch_size).map([](const Clicks& batch) {
    return Samples({batch.user, batch.film}, batch.liked.unsqueeze(1));
  });
}

// The same with Keras: every task calls fit; on workers and servers it serves, and returns the coordinator's History.
void fit(ParameterServerStrategy& strategy, const Options& options) {
  const auto model = strategy.build([] { return make_model(); });
  const auto creator =
      keras::DatasetCreator([&](const data::InputContext& context) { return samples(context, options.batch_size); });
  const auto history = model.fit(
      creator,
      {.epochs = options.epochs,
       .callbacks = {keras::callbacks::ModelCheckpoint({.filepath = options.checkpoint_dir + "/fit/ckpt-{epoch}"}),
                     keras::callbacks::BackupAndRestore({.backup_dir = options.checkpoint_dir + "/backup"})},
       .steps_per_epoch = options.steps_per_epoch});
  if (strategy.is_coordinator()) std::cout << "fit: accuracy " << history.history.at("accuracy").back() << '\n';
}

// Beside the training: evaluates each checkpoint that fit writes.
void evaluate(const Options& options) {
  const auto model = make_model();
  keras::SidecarEvaluator evaluator(
      model, {.data = samples({}, options.batch_size).take(20),
              .checkpoint_dir = options.checkpoint_dir + "/fit",
              .max_evaluations = options.epochs,
              .callbacks = {keras::callbacks::TensorBoard({.log_dir = options.checkpoint_dir + "/logs"})}});
  std::cout << "evaluator: accuracy " << evaluator.start().at("accuracy") << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"training with parameter servers"};
  Options options;
  app.add_option("--checkpoints", options.checkpoint_dir, "a folder that all tasks see")->required();
  app.add_option("--epochs", options.epochs);
  app.add_option("--steps", options.steps_per_epoch, "of an epoch");
  app.add_option("--batch", options.batch_size);
  app.add_option("--replicas", options.replicas, "devices of each worker");
  CLI11_PARSE(app, argc, argv);

  tune_allocator();
  set_random_seed(1);
  const auto cluster = cluster::from_environment();
  if (cluster->task() && cluster->task()->type == "evaluator") {
    evaluate(options);
    return 0;
  }
  ParameterServerStrategy strategy(
      {.cluster_resolver = cluster,
       .variable_partitioner = MinSizePartitioner({.min_shard_bytes = 256 << 10, .max_shards = 8}),
       .devices = configure_logical_cpus(options.replicas)});
  custom_loop(strategy, options);
  fit(strategy, options);
}
