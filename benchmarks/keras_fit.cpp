// A step of Model::fit of the MNIST model at a global batch of 64, over a plain LibTorch loop on NCHW tensors with the
// same optimizer, allocator tuning and its best number of threads. Input is in memory on both sides; fit also takes the
// accuracy.
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

keras::Sequential mnist_model() {
  namespace layers = keras::layers;
  const keras::Sequential model(
      {layers::Conv2D({.filters = 32, .kernel_size = {3, 3}, .activation = keras::activations::relu}),
       layers::MaxPooling2D(), layers::Flatten(), layers::Dense({.units = 64, .activation = keras::activations::relu}),
       layers::Dense({.units = 10})});
  model.compile({.optimizer = keras::optimizers::Adam({.learning_rate = 1e-3}),
                 .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {keras::metrics::SparseCategoricalAccuracy({.name = "accuracy"})}});
  return model;
}

void Fit(benchmark::State& state) {
  const Tensor images = torch::rand({Training::kBatch, 28, 28, 1});
  const Tensor labels = torch::randint(10, {Training::kBatch}, torch::kLong);
  PlainLoop plain(images, labels);
  MirroredStrategy strategy({.devices = configure_logical_cpus(static_cast<int>(state.range(0)))});
  const keras::Sequential model = strategy.build(mnist_model);
  const std::vector batches(kSteps, std::tuple(images, labels));
  const auto fit = [&] { model.fit(batches, {.verbose = keras::Verbose::silent}); };
  state.counters["raw_threads"] = use_best_thread_count([&] { plain(); }, 1);
  compare(
      state, 1, [&] { plain(); }, fit);
  for (const char* total : {"raw_us", "ours_us"}) state.counters[total] = state.counters[total] / kSteps;
}
BENCHMARK(Fit)->ArgName("replicas")->Arg(1)->Arg(8)->Iterations(31)->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
