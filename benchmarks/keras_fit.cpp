// A step of Model::fit of the MNIST model at a global batch of 64, over a plain LibTorch loop on NCHW tensors with the
// same optimizer, allocator tuning and its best number of threads. Input is in memory on both sides; fit also takes the
// accuracy. `recorded` says whether its steps are replayed, as they are by themselves, or run eagerly.
#include "training.h"

namespace tutti::benchmarks {
namespace {

constexpr int kSteps = 32;  // of a fit or loop that is timed

// The loop of a program without Tutti.
class PlainLoop {
 public:
  PlainLoop(const Tensor& images, const Tensor& labels)
      : images_(images.permute({0, 3, 1, 2}).contiguous()), labels_(labels), model_(mnist_cnn().make()) {
    optimizer_.emplace(model_->parameters(), torch::optim::AdamOptions(1e-3));
  }

  void operator()() {
    for (int step = 0; step < kSteps; ++step) {
      optimizer_->zero_grad();
      torch::cross_entropy_loss(model_->forward(images_), labels_).backward();
      optimizer_->step();
    }
  }

 private:
  Tensor images_, labels_;
  torch::nn::Sequential model_;
  std::optional<torch::optim::Adam> optimizer_;
};

void compile(const keras::Model& model, bool recorded) {
  model.compile({.optimizer = keras::optimizers::Adam({.learning_rate = 1e-3}),
                 .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {keras::metrics::SparseCategoricalAccuracy({.name = "accuracy"})},
                 .run_eagerly = !recorded});
}

keras::Sequential mnist_model() {
  namespace layers = keras::layers;
  return keras::Sequential(
      {layers::Conv2D({.filters = 32, .kernel_size = {3, 3}, .activation = keras::activations::relu}),
       layers::MaxPooling2D(), layers::Flatten(), layers::Dense({.units = 64, .activation = keras::activations::relu}),
       layers::Dense({.units = 10})});
}

keras::Sequential small_model() {
  return keras::Sequential({keras::layers::Flatten(), keras::layers::Dense({.units = 10})});
}

void Fit(benchmark::State& state) {
  const Tensor images = torch::rand({Training::kBatch, 28, 28, 1});
  const Tensor labels = torch::randint(10, {Training::kBatch}, torch::kLong);
  PlainLoop plain(images, labels);
  MirroredStrategy strategy({.devices = configure_logical_cpus(static_cast<int>(state.range(0)))});
  const keras::Sequential model = strategy.build(mnist_model);
  compile(model, state.range(1) != 0);
  const std::vector batches(kSteps, std::tuple(images, labels));
  const auto fit = [&] { model.fit(batches, {.verbose = keras::Verbose::silent}); };
  state.counters["raw_threads"] = use_best_thread_count([&] { plain(); }, 1);
  compare(
      state, 1, [&] { plain(); }, fit);
  for (const char* total : {"raw_us", "ours_us"}) state.counters[total] = state.counters[total] / kSteps;
}
BENCHMARK(Fit)->ArgNames({"replicas", "recorded"})->ArgsProduct({{1, 8}, {0, 1}})->Iterations(31)->UseManualTime();

// What recording costs a fit that ends before anything is replayed: its first two steps, and three that are eager.
void FirstTwoSteps(benchmark::State& state) {
  at::set_num_threads(1);
  const keras::Sequential model = state.range(0) ? mnist_model() : small_model();
  const keras::Batch batch{.x = torch::rand({Training::kBatch, 28, 28, 1}),
                           .y = torch::randint(10, {Training::kBatch}, torch::kLong)};
  std::vector<double> two_recorded, three_eager;
  const auto seconds_of = [&](bool recorded, int steps) {
    compile(model, recorded);  // forgets the recordings
    return steps * seconds_per_step([&] { model.train_on_batch(batch); }, steps);
  };
  for (auto _ : state) {
    three_eager.push_back(seconds_of(/*recorded=*/false, 3));
    two_recorded.push_back(seconds_of(/*recorded=*/true, 2));
    state.SetIterationTime(two_recorded.back());
  }
  state.counters["two_recorded_ms"] = 1e3 * quantile(two_recorded, 0.5);
  state.counters["three_eager_ms"] = 1e3 * quantile(three_eager, 0.5);
}
BENCHMARK(FirstTwoSteps)->ArgName("mnist")->Arg(0)->Arg(1)->Iterations(31)->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
