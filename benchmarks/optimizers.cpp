// A step of each optimizer over the same step of torch::optim, where LibTorch has it, on one thread and on gradients
// that are there.
//
//   OMP_NUM_THREADS=1 ./dev bench optimizers
//   ./dev bench optimizers --benchmark_filter=large
//
// cnn: the six variables of the network for MNIST, 347,000 elements. large: 50 variables of 100,000 elements, more than
// a core's own caches hold: then memory decides, and the ratio tells how often each optimizer passes over it;
// LibTorch's plain SGD passes over it once, as ours. Read `ratio`: below 1, Tutti is faster. Optimizers that LibTorch
// lacks are measured against torch::optim::Adam.
#include "paired.h"
#include "tutti/keras/optimizers/adadelta.h"
#include "tutti/keras/optimizers/adafactor.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/keras/optimizers/adamax.h"
#include "tutti/keras/optimizers/adamw.h"
#include "tutti/keras/optimizers/ftrl.h"
#include "tutti/keras/optimizers/lion.h"
#include "tutti/keras/optimizers/nadam.h"
#include "tutti/keras/optimizers/rmsprop.h"
#include "tutti/tutti.h"

namespace tutti::benchmarks {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;

std::vector<Tensor> tensors(const Shapes& shapes) {
  std::vector<Tensor> results;
  for (const auto& shape : shapes) results.push_back(torch::rand(shape));
  return results;
}

template <class Raw>
void measure(benchmark::State& state, const Shapes& shapes, int steps, const auto& raw_options,
             const keras::optimizers::Optimizer& ours) {
  at::set_num_threads(1);
  const std::vector<Tensor> gradients = tensors(shapes), variables = tensors(shapes), parameters = tensors(shapes);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].set_requires_grad(true);
    parameters[i].mutable_grad() = gradients[i];
  }
  Raw raw(parameters, raw_options);
  compare(
      state, steps, [&] { raw.step(); }, [&] { ours.apply_gradients(gradients, variables); });
}

template <class Raw>
void add(const std::string& name, const auto& raw_options, const auto& make_ours) {
  const Shapes cnn{{32, 1, 3, 3}, {32}, {64, 5408}, {64}, {10, 64}, {10}};
  const Shapes large(50, {250, 400});
  const auto add_one = [&](const char* set, const Shapes& shapes, int steps) {
    const auto run = [=](benchmark::State& state) { measure<Raw>(state, shapes, steps, raw_options, make_ours()); };
    benchmark::RegisterBenchmark((name + '/' + set).c_str(), run)->Iterations(31)->UseManualTime();
  };
  add_one("cnn", cnn, 50);
  add_one("large", large, 3);
}

void add_all() {
  namespace raw = torch::optim;
  namespace ours = keras::optimizers;
  add<raw::SGD>("SGD", raw::SGDOptions(0.01), [] { return ours::SGD(); });
  add<raw::SGD>("SGD_momentum", raw::SGDOptions(0.01).momentum(0.9), [] { return ours::SGD({.momentum = 0.9}); });
  add<raw::Adam>("Adam", raw::AdamOptions(), [] { return ours::Adam(); });
  add<raw::Adam>("Adam_amsgrad", raw::AdamOptions().amsgrad(true), [] { return ours::Adam({.amsgrad = true}); });
  add<raw::AdamW>("AdamW", raw::AdamWOptions().weight_decay(0.004), [] { return ours::AdamW(); });
  add<raw::Adagrad>("Adagrad", raw::AdagradOptions(0.001), [] { return ours::Adagrad(); });
  add<raw::RMSprop>("RMSprop", raw::RMSpropOptions(0.001), [] { return ours::RMSprop(); });
  add<raw::Adam>("Adam_clipped", raw::AdamOptions(), [] { return ours::Adam({.global_clipnorm = 1}); });
  add<raw::Adam>("Adadelta", raw::AdamOptions(), [] { return ours::Adadelta(); });
  add<raw::Adam>("Adamax", raw::AdamOptions(), [] { return ours::Adamax(); });
  add<raw::Adam>("Nadam", raw::AdamOptions(), [] { return ours::Nadam(); });
  add<raw::Adam>("Ftrl", raw::AdamOptions(), [] { return ours::Ftrl(); });
  add<raw::Adam>("Lion", raw::AdamOptions(), [] { return ours::Lion(); });
  add<raw::Adam>("Adafactor", raw::AdamOptions(), [] { return ours::Adafactor(); });
}

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) {
  tutti::benchmarks::add_all();
  tutti::benchmarks::run(argc, argv);
}
