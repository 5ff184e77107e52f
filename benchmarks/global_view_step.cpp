// The training step of TensorFlow's DTensor tutorial in global view: an MLP 1200-48-2 with a normalized hidden layer,
// its batch of 64 sharded over 8 logical CPUs, over the same step on plain tensors. Both on one thread.
//
//   ./dev bench global_view_step
//
// merge:1 holds each value in one buffer and its layout as metadata; merge:0 holds each shard in a buffer of its own,
// as devices that share no memory must, so that every op is up to 8 calls. Read `ratio`.
#include "paired.h"
#include "tutti/tutti.h"

namespace tutti::benchmarks {
namespace {

struct Model {
  Tensor weight1 = torch::randn({1200, 48}) * 0.03, bias1 = torch::zeros(48);
  Tensor weight2 = torch::randn({48, 2}) * 0.1, bias2 = torch::zeros(2);

  // Of plain tensors, or replicated on a mesh.
  explicit Model(const Mesh* mesh = nullptr) {
    for (Tensor* weight : weights()) {
      if (mesh) *weight = distribute_tensor(*weight, Layout::replicated(*mesh, static_cast<int>(weight->dim())));
      weight->set_requires_grad(true);
    }
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
};

void GlobalViewStep(benchmark::State& state) {
  at::set_num_threads(1);
  const Mesh mesh({{"batch", 8}}, configure_logical_cpus(8), {.merge = state.range(0) != 0});
  const Tensor inputs = torch::rand({64, 1200});
  const Tensor labels = torch::randint(2, {64}, torch::kLong);
  Model raw, ours(&mesh);
  const auto shard = [&](const Tensor& value) {
    return distribute_tensor(value, Layout::batch_sharded(mesh, "batch", static_cast<int>(value.dim())));
  };
  compare(
      state, 40, [&] { raw.step(inputs, labels); }, [&] { ours.step(shard(inputs), shard(labels)); });
}

BENCHMARK(GlobalViewStep)->ArgName("merge")->Arg(1)->Arg(0)->Iterations(31)->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
