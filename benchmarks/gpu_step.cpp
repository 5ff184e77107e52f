// A training step on one GPU through MirroredStrategy, over the step of the same model in a plain LibTorch loop on that
// GPU: with one replica, and with several on logical parts of it. And what a sum of gradients there moves.
//
//   ./dev bench gpu_step
//
// Each measurement is of several steps and of the wait for the last of them. Read `ratio`; without a GPU nothing is
// run, and each row says so.
#include "paired.h"
#include "transformer_block.h"
#include "tutti/distribute/in_process_all_reduce.h"
#include "tutti/tutti.h"

namespace tutti::benchmarks {
namespace {

namespace nn = torch::nn;

constexpr int64_t kBatch = 256;

struct Task {
  nn::Sequential (*make)();
  std::vector<int64_t> input;  // without the batch axis
  int64_t words = 0;           // the input is of so many; 0: it is of numbers
};

Task mlp() {
  return {[] { return nn::Sequential(nn::Linear(1200, 48), nn::ReLU(), nn::Linear(48, 10)); }, {1200}};
}

Task cnn() {
  return {[] {
            return nn::Sequential(nn::Conv2d(1, 32, 3), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(32, 64, 3), nn::ReLU(),
                                  nn::MaxPool2d(2), nn::Flatten(), nn::Linear(1600, 10));
          },
          {1, 28, 28}};
}

struct Mean : nn::Module {
  Tensor forward(const Tensor& x) { return x.mean(1); }
};

Task transformer() {
  return {[] {
            using Block = TransformerBlock;
            return nn::Sequential(nn::Embedding(1000, 256), Block(256), Block(256), Block(256), Block(256), Mean(),
                                  nn::Linear(256, 10));
          },
          {64},
          1000};
}

void wait_for_gpu() { torch::cuda::synchronize(); }

// One SGD step of a task, as a program without Tutti takes it (no devices given), or on the replicas of a strategy.
class Training {
 public:
  explicit Training(const Task& task, std::vector<Device> devices = {}, MeshOptions mesh = {}) {
    std::vector<int64_t> shape = {kBatch};
    shape.insert(shape.end(), task.input.begin(), task.input.end());
    inputs_ = task.words ? torch::randint(task.words, shape, at::TensorOptions(at::kCUDA).dtype(at::kLong))
                         : torch::rand(shape, at::kCUDA);
    labels_ = torch::randint(10, {kBatch}, at::TensorOptions(at::kCUDA).dtype(at::kLong));
    if (devices.empty()) {
      model_ = task.make();
      model_->to(at::kCUDA);
    } else {
      strategy_.emplace(MirroredStrategyOptions{.devices = std::move(devices), .mesh = std::move(mesh)});
      model_ = strategy_->build(task.make);
      batch_ = strategy_->distribute(std::tuple(inputs_, labels_));
    }
    optimizer_.emplace(model_->parameters(), 0.01);
  }

  MirroredStrategy& strategy() { return *strategy_; }
  void step() { strategy_ ? step(*batch_) : step(inputs_, labels_); }
  void step(const Tensor& inputs, const Tensor& labels) {
    optimizer_->zero_grad();
    backward(inputs, labels);
    optimizer_->step();
  }
  void step(const PerReplica<std::tuple<Tensor, Tensor>>& batch) {
    optimizer_->zero_grad();
    strategy_->run([this](const Tensor& inputs, const Tensor& labels) { backward(inputs, labels); }, batch);
    optimizer_->step();
  }

 private:
  void backward(const Tensor& inputs, const Tensor& labels) {
    const Tensor losses = torch::cross_entropy_loss(model_->forward(inputs), labels, {}, at::Reduction::Sum);
    (losses / kBatch).backward();
  }

  Tensor inputs_, labels_;
  std::optional<MirroredStrategy> strategy_;
  std::optional<PerReplica<std::tuple<Tensor, Tensor>>> batch_;
  nn::Sequential model_{nullptr};
  std::optional<torch::optim::SGD> optimizer_;
};

bool is_without_gpu(benchmark::State& state) {
  if (!list_physical_devices(DeviceType::gpu).empty()) return false;
  state.SkipWithError("not run: no GPU");
  return true;
}

std::vector<Device> parts(int64_t n) {
  return configure_logical_devices("GPU:0", std::vector<LogicalDeviceOptions>(static_cast<size_t>(n)));
}

constexpr int kSteps = 20;  // of one measurement

template <class Step>
auto several(Step step) {
  return [step] {
    for (int i = 0; i < kSteps; ++i) step();
    wait_for_gpu();
  };
}

void measure(benchmark::State& state, const Task& task) {
  if (is_without_gpu(state)) return;
  Training raw(task), ours(task, parts(state.range(0)), {.merge = state.range(1) != 0});
  compare(state, 1, several([&] { raw.step(); }), several([&] { ours.step(); }));
}

void Mlp(benchmark::State& state) { measure(state, mlp()); }
void Cnn(benchmark::State& state) { measure(state, cnn()); }
void Transformers(benchmark::State& state) { measure(state, transformer()); }

// The step as a recorded function, whose calls are launched one by one, or as a graph.
void measure_recorded(benchmark::State& state, const Task& task) {
  if (is_without_gpu(state)) return;
  try {
    Training raw(task), ours(task, parts(state.range(0)), {.merge = state.range(1) != 0});
    const auto step = function([&] { ours.step(); }, {.gpu_graphs = state.range(2) != 0});
    compare(state, 1, several([&] { raw.step(); }), several([&] { step(); }));
  } catch (const Error& error) {  // LibTorch 2.11 records nothing; graphs need libtutti_cuda.so
    state.SkipWithError(error.what());
  }
}

void RecordedMlp(benchmark::State& state) { measure_recorded(state, mlp()); }
void RecordedCnn(benchmark::State& state) { measure_recorded(state, cnn()); }
void RecordedTransformers(benchmark::State& state) { measure_recorded(state, transformer()); }

// The CNN's step with a new batch from the host each time, of a dataset: by to() in the plain loop.
void Input(benchmark::State& state) {
  if (is_without_gpu(state)) return;
  Training raw(cnn()), ours(cnn(), parts(1));
  const auto batches =
      data::from_tensor_slices(torch::rand({4 * kBatch, 1, 28, 28}), torch::randint(10, {4 * kBatch}, torch::kLong))
          .batch(kBatch)
          .cache()
          .repeat();
  const auto distributed = ours.strategy().distribute(batches);
  auto next = batches.begin();
  auto next_of_ours = distributed.begin();
  compare(state, 1, several([&] {
            const auto& [images, labels] = *next;
            raw.step(images.to(at::kCUDA), labels.to(at::kCUDA));
            ++next;
          }),
          several([&] {
            ours.step(*next_of_ours);
            ++next_of_ours;
          }));
}

// The sum of n buffers of 64 MB in the memory of one GPU, which each of n replicas gets: GB/s of the 2 n buffers that
// are read and written, and their fraction of a copy's.
void AllReduce(benchmark::State& state) {
  if (is_without_gpu(state)) return;
  const int64_t n = state.range(0), bytes = 64 << 20;
  std::vector<Tensor> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(torch::rand({bytes / 4}, at::kCUDA));
  const auto devices = parts(n);
  const InProcessAllReduce all_reduce;
  const Tensor target = torch::empty_like(values[0]);
  compare(state, 1, several([&] { Tensor(target).copy_(values[0]); }),
          several([&] { all_reduce.reduce(ReduceOp::sum, PerReplica<Tensor>(values), Destinations(devices)); }));
  const double moved = static_cast<double>(2 * n * bytes) / (state.counters["ours_us"] / kSteps);
  const double copied = static_cast<double>(2 * bytes) / (state.counters["raw_us"] / kSteps);
  state.counters["fraction"] = moved / copied;
  state.counters["GB/s"] = moved / 1e3;
}

void variants(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"replicas", "merge"})->Args({1, 1})->Args({8, 1})->Args({8, 0})->Iterations(9)->UseManualTime();
}
BENCHMARK(Mlp)->Apply(variants);
BENCHMARK(Cnn)->Apply(variants);
BENCHMARK(Transformers)->Apply(variants);
void recorded_variants(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"replicas", "merge", "graph"})->Iterations(9)->UseManualTime();
  for (const int replicas : {1, 8})
    for (const int graph : {0, 1}) benchmark->Args({replicas, 1, graph});
  benchmark->Args({8, 0, 1});
}
BENCHMARK(RecordedMlp)->Apply(recorded_variants);
BENCHMARK(RecordedCnn)->Apply(recorded_variants);
BENCHMARK(RecordedTransformers)->Apply(recorded_variants);
BENCHMARK(Input)->Iterations(9)->UseManualTime();
BENCHMARK(AllReduce)->ArgName("buffers")->Arg(2)->Arg(4)->Arg(8)->Iterations(9)->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
