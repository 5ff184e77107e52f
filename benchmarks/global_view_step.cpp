// The training step of TensorFlow's DTensor tutorial in global view: an MLP 1200-48-2 with a normalized hidden layer,
// batches of 64 on 8 logical CPUs, over the same step on plain tensors. Both on one thread. And single ops.
//
//   ./dev bench global_view_step
//
// mesh:0 is data-parallel (8), mesh:1 data- and model-parallel (4 x 2), mesh:2 spatially parallel (2 x 2 x 2).
// merge:1 holds each value in one buffer and its layout as metadata; merge:0 holds each shard in a buffer of its own,
// as devices that share no memory must, so that an op is up to 8 calls (but small parts of a sum are joined).
// recorded:1 replays the step; recorded:2 replays it on a batch that was distributed before, which the others do in
// each step. Read `ratio`; for ops the time, too.
#include "paired.h"
#include "tutti/tutti.h"

namespace tutti::benchmarks {
namespace {

struct Layouts {
  std::vector<MeshDimension> mesh;
  std::vector<std::string> weight1, weight2, inputs, labels;  // biases follow the last axis of their weight
};

const std::array<Layouts, 3>& tutorial_layouts() {
  static const std::array<Layouts, 3> all{{
      {{{"batch", 8}}, {kUnsharded, kUnsharded}, {kUnsharded, kUnsharded}, {"batch", kUnsharded}, {"batch"}},
      {{{"batch", 4}, {"model", 2}}, {kUnsharded, "model"}, {"model", kUnsharded}, {"batch", kUnsharded}, {"batch"}},
      {{{"batch", 2}, {"feature", 2}, {"model", 2}},
       {"feature", "model"},
       {"model", kUnsharded},
       {"batch", "feature"},
       {"batch"}},
  }};
  return all;
}

struct Model {
  Tensor weight1 = torch::randn({1200, 48}) * 0.03, bias1 = torch::zeros(48);
  Tensor weight2 = torch::randn({48, 2}) * 0.1, bias2 = torch::zeros(2);

  Model() { make_leaves(); }
  Model(const Layouts& layouts, const Mesh& mesh) {
    const auto place = [&](Tensor& value, const std::vector<std::string>& axes) {
      value = distribute_tensor(value, Layout(axes, mesh));
    };
    place(weight1, layouts.weight1);
    place(bias1, {layouts.weight1[1]});
    place(weight2, layouts.weight2);
    place(bias2, {layouts.weight2[1]});
    make_leaves();
  }

  std::array<Tensor*, 4> weights() { return {&weight1, &bias1, &weight2, &bias2}; }

  Tensor logits(const Tensor& inputs) const {
    const Tensor hidden = torch::relu(torch::matmul(inputs, weight1) + bias1);
    const auto [variance, mean] = torch::var_mean(hidden, 0, /*unbiased=*/false);
    return torch::matmul((hidden - mean) * torch::rsqrt(variance + 1e-5), weight2) + bias2;
  }

  // One step of SGD; returns the accuracy.
  Tensor step(const Tensor& inputs, const Tensor& labels) {
    const Tensor predicted = logits(inputs);
    torch::cross_entropy_loss(predicted, labels, {}, at::Reduction::Sum).backward();
    const torch::NoGradGuard no_grad;
    for (Tensor* weight : weights()) {
      weight->sub_(weight->grad() * 1e-3);
      weight->mutable_grad().reset();
    }
    return torch::argmax(predicted, 1).eq(labels).to(torch::kFloat).mean();
  }

 private:
  void make_leaves() {
    for (Tensor* weight : weights()) weight->set_requires_grad(true);
  }
};

void GlobalViewStep(benchmark::State& state) {
  at::set_num_threads(1);
  const Layouts& layouts = tutorial_layouts()[static_cast<size_t>(state.range(0))];
  const Mesh mesh(layouts.mesh, configure_logical_cpus(8), {.merge = state.range(1) != 0});
  const Tensor inputs = torch::rand({64, 1200});
  const Tensor labels = torch::randint(2, {64}, torch::kLong);
  Model raw, ours(layouts, mesh);
  const Layout inputs_layout(layouts.inputs, mesh), labels_layout(layouts.labels, mesh);
  const auto step = [&](const Tensor& x, const Tensor& y) { return ours.step(x, y); };
  const auto recorded = function(step);
  const auto distributed = [&] {
    return std::pair(distribute_tensor(inputs, inputs_layout), distribute_tensor(labels, labels_layout));
  };
  const auto before = distributed();
  compare(
      state, 40, [&] { raw.step(inputs, labels); },
      [&] {
        const auto [x, y] = state.range(2) == 2 ? before : distributed();
        state.range(2) ? recorded(x, y) : step(x, y);
      });
}

// One op on tensors [64, 48] that are sharded over all 8 devices.
void GlobalViewOp(benchmark::State& state) {
  at::set_num_threads(1);
  const torch::NoGradGuard no_grad;
  const Mesh mesh({{"batch", 8}}, configure_logical_cpus(8), {.merge = state.range(1) != 0});
  const Tensor a = torch::rand({64, 48}), b = torch::rand({64, 48}), square = torch::rand({48, 48});
  const Layout sharded({"batch", kUnsharded}, mesh);
  const Tensor mesh_a = distribute_tensor(a, sharded), mesh_b = distribute_tensor(b, sharded);
  const Tensor mesh_square = distribute_tensor(square, Layout::replicated(mesh, 2));
  const auto op = [&](const Tensor& x, const Tensor& y, const Tensor& weights) {
    switch (state.range(0)) {
      case 0: return torch::add(x, y);
      case 1: return torch::mm(x, weights);
      case 2: return torch::sum(x, 0);
      default: return torch::log_softmax(x, 1);
    }
  };
  compare(
      state, 1000, [&] { op(a, b, square); }, [&] { op(mesh_a, mesh_b, mesh_square); });
}

BENCHMARK(GlobalViewStep)
    ->ArgNames({"mesh", "merge", "recorded"})
    ->ArgsProduct({{0, 1, 2}, {1, 0}, {0, 1, 2}})
    ->Iterations(31)
    ->UseManualTime();
// op:0 add, op:1 mm, op:2 sum over the sharded axis, op:3 log_softmax.
BENCHMARK(GlobalViewOp)
    ->ArgNames({"op", "merge"})
    ->ArgsProduct({{0, 1, 2, 3}, {1, 0}})
    ->Iterations(31)
    ->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
