// A step of examples/custom_training_loop.cpp (Dense(1) with L2, its distributed iterator, run, apply_gradients,
// reduce), over the step of the same model in a plain LibTorch loop: what the library itself costs, since there is
// nothing to compute.
//
//   ./dev bench custom_loop
//
// The global batch is 5 samples for each replica. The plain step has its batch in memory and one core. recorded:1
// replays run and reduce.
#include "paired.h"
#include "tutti/tutti.h"

namespace tutti::benchmarks {
namespace {

class PlainLoop {
 public:
  explicit PlainLoop(int64_t batch)
      : features_(torch::ones({batch, 1})), labels_(torch::ones({batch, 1})), optimizer_(model_->parameters(), 0.01) {}

  float step() {
    optimizer_.zero_grad();
    Tensor loss = torch::binary_cross_entropy_with_logits(model_(features_), labels_);
    loss = loss + 1e-4 * model_->weight.square().sum();
    loss.backward();
    optimizer_.step();
    return loss.item<float>();
  }

 private:
  Tensor features_, labels_;
  torch::nn::Linear model_{1, 1};
  torch::optim::SGD optimizer_;
};

class CustomLoop {
 public:
  using Batch = PerReplica<std::tuple<Tensor, Tensor>>;

  explicit CustomLoop(int replicas)
      : strategy_({.devices = configure_logical_cpus(replicas)}),
        dataset_(strategy_.distribute(
            data::from_tensors(torch::ones({1}), torch::ones({1})).repeat().batch(int64_t{5} * replicas))),
        iterator_(dataset_.begin()),
        model_(strategy_.build([] {
          return keras::Sequential(
              {keras::layers::Dense({.units = 1, .kernel_regularizer = keras::regularizers::L2(1e-4)})});
        })) {}

  Tensor train_on(const Batch& batch) {
    const auto losses = strategy_.run([this](const Tensor& x, const Tensor& y) { return train_step(x, y); }, batch);
    return strategy_.reduce(ReduceOp::sum, losses);
  }
  // By train_on(), or a recording of it.
  float step(const auto& train) {
    const Tensor loss = train(*iterator_);
    ++iterator_;
    return loss.item<float>();
  }

 private:
  Tensor train_step(const Tensor& features, const Tensor& labels) const {
    const Tensor predictions = model_(features, {.training = true});
    Tensor loss = compute_average_loss(loss_object_(labels, predictions));
    loss = loss + scale_regularization_loss(model_.losses());
    optimizer_.apply_gradients(gradients(loss, model_.trainable_variables()), model_.trainable_variables());
    return loss.detach();
  }

  MirroredStrategy strategy_;
  data::DistributedDataset<std::tuple<Tensor, Tensor>> dataset_;
  data::DistributedIterator<std::tuple<Tensor, Tensor>> iterator_;
  keras::Sequential model_;
  keras::optimizers::SGD optimizer_{{.learning_rate = 0.01}};
  keras::losses::BinaryCrossentropy loss_object_{{.from_logits = true, .reduction = keras::Reduction::none}};
};

void Dense1(benchmark::State& state) {
  at::set_num_threads(1);
  const auto replicas = static_cast<int>(state.range(0));
  PlainLoop raw(5 * replicas);
  CustomLoop ours(replicas);
  const auto train = [&](const CustomLoop::Batch& batch) { return ours.train_on(batch); };
  const auto recorded = function(train);
  compare(
      state, 200, [&] { raw.step(); }, [&] { state.range(1) ? ours.step(recorded) : ours.step(train); });
}

BENCHMARK(Dense1)
    ->ArgNames({"replicas", "recorded"})
    ->ArgsProduct({{1, 2, 8}, {0, 1}})
    ->Iterations(31)
    ->UseManualTime();

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) { tutti::benchmarks::run(argc, argv); }
