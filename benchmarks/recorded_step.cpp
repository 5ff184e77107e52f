// A training step that `function` has recorded, over the same step of plain LibTorch: both on one thread, with the same
// batches.
//   least          the ratio of the least times of single steps: what is left of `ratio` beside busy neighbours
//   floor          what LibTorch's products and convolutions, and its kernels of LSTMs and attention, take alone, over
//   the
//                  raw step
//   products       what the same calls take of a replay, some of them by kernels of our own
//
//   OMP_NUM_THREADS=1 ./dev bench recorded_step
//   OMP_NUM_THREADS=1 TUTTI_STEP_TIMES=1 ./dev bench recorded_step --benchmark_filter=Mlp
//
// The latter prints what each step of a replay takes.
#include <cstdlib>
#include <iomanip>
#include <iostream>

#include "paired.h"
#include "transformer_block.h"
#include "tutti/function/replay.h"
#include "tutti/tutti.h"

namespace tutti::benchmarks {
namespace {

using namespace torch::nn;

Sequential mlp() { return Sequential(Linear(1200, 48), BatchNorm1d(48), ReLU(), Linear(48, 10)); }

Sequential lenet() {
  return Sequential(Conv2d(1, 6, 5), ReLU(), MaxPool2d(2), Conv2d(6, 16, 5), ReLU(), MaxPool2d(2), Flatten(),
                    Linear(256, 120), ReLU(), Linear(120, 10));
}

Sequential mnist_cnn() {
  return Sequential(Conv2d(1, 32, 3), ReLU(), MaxPool2d(2), Conv2d(32, 64, 3), ReLU(), MaxPool2d(2), Flatten(),
                    Linear(1600, 10));
}

// Embedded words [b, t] to logits.
struct LstmClassifier : Module {
  Embedding embedding = register_module("embedding", Embedding(1000, 32));
  LSTM lstm = register_module("lstm", LSTM(LSTMOptions(32, 64).batch_first(true)));
  Linear head = register_module("head", Linear(64, 10));

  Tensor forward(const Tensor& words) {
    const Tensor hidden = std::get<0>(lstm(embedding(words)));
    return head(hidden.select(1, -1));
  }
};

constexpr int64_t kWidth = 64, kLength = 16;

struct Transformer : Module {
  Embedding embedding = register_module("embedding", Embedding(1000, kWidth));
  Embedding position = register_module("position", Embedding(kLength, kWidth));
  Sequential blocks = register_module("blocks", Sequential(TransformerBlock(kWidth), TransformerBlock(kWidth)));
  LayerNorm norm = register_module("norm", LayerNorm(LayerNormOptions({kWidth})));
  Linear head = register_module("head", Linear(kWidth, 10));

  Tensor forward(const Tensor& words) {
    return head(norm(blocks->forward(embedding(words) + position->weight)).mean(1));
  }
};

Sequential lstm() { return Sequential(LstmClassifier()); }
Sequential transformer() { return Sequential(Transformer()); }

Tensor loss_of(Sequential& model, const Tensor& x, const Tensor& y) {
  return torch::nll_loss(torch::log_softmax(model->forward(x), 1), y);
}

// With an optimizer of LibTorch.
template <class Optimizer>
struct Training {
  Sequential model;
  Optimizer optimizer{model->parameters(), 0.01};

  Tensor step(const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(model, x, y);
    loss.backward();
    optimizer.step();
    return loss.detach();
  }
};

// With Keras's, which, unlike LibTorch's, may be recorded.
struct AdamTraining {
  Sequential model;
  keras::optimizers::Adam optimizer{{.learning_rate = 0.01}};
  std::vector<Tensor> parameters = model->parameters();

  Tensor step(const Tensor& x, const Tensor& y) {
    const Tensor loss = loss_of(model, x, y);
    optimizer.apply_gradients(gradients(loss, parameters), parameters);
    return loss.detach();
  }
};

// With LibTorch's kernel of Adam, whose counts are tensors.
struct FusedAdamTraining {
  Sequential model;
  std::vector<Tensor> parameters = model->parameters();
  std::vector<Tensor> means = zeros(), squares = zeros(), steps = std::vector(parameters.size(), torch::zeros({}));

  std::vector<Tensor> zeros() const {
    std::vector<Tensor> made;
    for (const Tensor& parameter : parameters) made.push_back(torch::zeros_like(parameter));
    return made;
  }

  Tensor step(const Tensor& x, const Tensor& y) {
    const Tensor loss = loss_of(model, x, y);
    const auto gradients = torch::autograd::grad({loss}, parameters);
    const torch::NoGradGuard no_grad;
    steps[0].add_(1);  // of all of them
    at::_fused_adam_(parameters, gradients, means, squares, {}, steps, /*lr=*/0.01, 0.9, 0.999, /*weight_decay=*/0,
                     /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
    return loss.detach();
  }
};

bool is_product(const std::string& calls) {
  for (const char* const name :
       {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::mkldnn", "aten::_scaled"})
    if (calls.starts_with(name)) return true;
  return false;
}

void print(const std::vector<Replay::StepTime>& times, double of_a_call) {
  if (!std::getenv("TUTTI_STEP_TIMES")) return;
  double all = 0;
  for (const auto& time : times) all += time.seconds;
  std::cout << std::fixed << std::setprecision(2) << 1e6 * all << " us in steps, " << 1e6 * of_a_call
            << " us a call:\n";
  for (const auto& [calls, seconds] : times)
    std::cout << std::setw(10) << std::setprecision(2) << 1e6 * seconds << " us " << std::setw(5)
              << std::setprecision(1) << 100 * seconds / all << " %  " << calls << "\n";
  std::cout << std::defaultfloat;
}

// LibTorch's products of a program alone, on random numbers: the least times of each, added up.
double seconds_of_products(const Program& program, int runs) {
  const auto argument = [&](const Program::Operand& operand) -> at::IValue {
    if (operand.kind != Program::Operand::Kind::tensor) return operand.constant;
    if (operand.values[0] < 0) return Tensor();
    const Geometry& geometry = program.values[static_cast<size_t>(operand.values[0])].geometry;
    const Tensor made = at::empty_strided(geometry.sizes, geometry.strides, geometry.dtype);
    return made.is_floating_point() ? made.uniform_(-1, 1) : made.zero_();
  };
  const torch::AutoGradMode keeps_what_gradients_need(true);
  double all = 0;
  for (const Program::Call& call : program.calls) {
    if (!is_product(call.name)) continue;
    torch::jit::Stack arguments, stack;
    for (const Program::Operand& operand : call.arguments) arguments.push_back(argument(operand));
    double least = std::numeric_limits<double>::infinity();
    for (int run = 0; run < runs; ++run) {
      stack = arguments;
      least = std::min(least, seconds_per_step([&] { call.op->callBoxed(stack); }, 1));
    }
    all += least;
  }
  return all;
}

template <class Raw, class Ours>
void compare_steps(benchmark::State& state, int steps, Raw& raw, Ours& ours, const Tensor& x, const Tensor& y) {
  const auto recorded = function([&](const Tensor& a, const Tensor& b) { return ours.step(a, b); });
  for (int i = 0; i < 4; ++i) recorded(x, y);
  compare(
      state, steps, [&] { raw.step(x, y); }, [&] { recorded(x, y); });
  const Program& program = recorded.get_concrete_function(x, y).graph();
  Replay replay(std::make_shared<const Program>(program));
  double products = 0, least = std::numeric_limits<double>::infinity();
  const auto times = replay.step_times({x, y}, 3 * steps);
  for (const auto& [calls, seconds] : times)
    if (is_product(calls)) products += seconds;
  double least_call = least;
  for (int i = 0; i < 3 * steps; ++i) {
    least = std::min(least, seconds_per_step([&] { raw.step(x, y); }, 1));
    least_call = std::min(least_call, seconds_per_step([&] { recorded(x, y); }, 1));
  }
  print(times, least_call);
  state.counters["floor"] = seconds_of_products(program, 3 * steps) / least;
  state.counters["products"] = products / least;
  state.counters["least"] = least_call / least;
}

template <class Raw, class Ours = Raw>
void train(benchmark::State& state, Sequential (*model)(), at::IntArrayRef features, int steps) {
  at::set_num_threads(1);
  at::DimVector sizes{state.range(0)};
  sizes.append(features.begin(), features.end());
  const bool has_words = features.size() == 1 && features[0] == kLength;
  const Tensor x = has_words ? torch::randint(1000, sizes) : torch::randn(sizes);
  const Tensor y = torch::randint(10, {state.range(0)});
  Raw raw{model()};
  Ours ours{model()};
  compare_steps(state, steps, raw, ours, x, y);
}

// The step of TensorFlow's DTensor tutorial: a hidden layer that is normalized by hand.
class Tutorial {
 public:
  Tutorial() {
    for (Tensor& weight : weights_) weight.set_requires_grad(true);
  }

  Tensor step(const Tensor& x, const Tensor& y) {
    const Tensor hidden = torch::relu(torch::matmul(x, weights_[0]) + weights_[1]);
    const auto [variance, mean] = torch::var_mean(hidden, 0, /*unbiased=*/false);
    const Tensor predicted = torch::matmul((hidden - mean) * torch::rsqrt(variance + 1e-5), weights_[2]) + weights_[3];
    torch::cross_entropy_loss(predicted, y, {}, at::Reduction::Sum).backward();
    const torch::NoGradGuard no_grad;
    for (Tensor& weight : weights_) {
      weight.sub_(weight.grad() * 1e-3);
      weight.mutable_grad().reset();
    }
    return torch::argmax(predicted, 1).eq(y).to(torch::kFloat).mean();
  }

 private:
  std::vector<Tensor> weights_{torch::randn({1200, 48}) * 0.03, torch::zeros(48), torch::randn({48, 2}) * 0.1,
                               torch::zeros(2)};
};

void TutorialMlp(benchmark::State& state) {
  at::set_num_threads(1);
  const Tensor x = torch::randn({state.range(0), 1200}), y = torch::randint(2, {state.range(0)});
  Tutorial raw, ours;
  compare_steps(state, 100, raw, ours, x, y);
}

using Sgd = Training<torch::optim::SGD>;
using Adam = Training<torch::optim::Adam>;

void Mlp(benchmark::State& state) { train<Sgd>(state, mlp, {1200}, 100); }
void MlpAdam(benchmark::State& state) { train<Adam, AdamTraining>(state, mlp, {1200}, 50); }
void MlpFusedAdam(benchmark::State& state) { train<FusedAdamTraining>(state, mlp, {1200}, 50); }
void LeNet(benchmark::State& state) { train<Sgd>(state, lenet, {1, 28, 28}, 30); }
void MnistCnn(benchmark::State& state) { train<Sgd>(state, mnist_cnn, {1, 28, 28}, 5); }
void Lstm(benchmark::State& state) { train<Sgd>(state, lstm, {kLength}, 20); }
void SmallTransformer(benchmark::State& state) { train<Sgd>(state, transformer, {kLength}, 20); }

BENCHMARK(Mlp)->ArgName("batch")->Arg(64)->Arg(8)->Iterations(31)->UseManualTime();
BENCHMARK(TutorialMlp)->ArgName("batch")->Arg(64)->Arg(8)->Iterations(31)->UseManualTime();
BENCHMARK(MlpAdam)->ArgName("batch")->Arg(64)->Iterations(31)->UseManualTime();
BENCHMARK(MlpFusedAdam)->ArgName("batch")->Arg(64)->Iterations(31)->UseManualTime();
BENCHMARK(LeNet)->ArgName("batch")->Arg(64)->Arg(8)->Iterations(31)->UseManualTime();
BENCHMARK(MnistCnn)->ArgName("batch")->Arg(64)->Arg(8)->Iterations(15)->UseManualTime();
BENCHMARK(Lstm)->ArgName("batch")->Arg(32)->Iterations(31)->UseManualTime();
BENCHMARK(SmallTransformer)->ArgName("batch")->Arg(16)->Iterations(31)->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
