// An SGD step of the MLP (1200-48-2, global batch 64) by several processes with one replica each.
//
//   tutti launch -n 2 multi_worker_step [STEPS]
//
// The chief prints, over rounds: the median time of a step, its 10 % and 90 % quantiles, the processor time of a step
// in its process, the same of a recorded step, and of a plain LibTorch loop on this process's part of the batch, which
// communicates with nobody.
#include <cstdio>
#include <cstdlib>

#include "training.h"

namespace tutti::benchmarks {
namespace {

class WorkerTraining {
 public:
  WorkerTraining()
      : inputs_(torch::rand({Training::kBatch, 1200})),
        labels_(torch::randint(2, {Training::kBatch}, torch::kLong)),
        model_(strategy_.build(mlp().make)),
        optimizer_(model_->parameters(), 0.01) {}

  void step() { step_on(strategy_.distribute(inputs_), strategy_.distribute(labels_)); }
  void recorded_step() { recorded_(strategy_.distribute(inputs_), strategy_.distribute(labels_)); }

  MultiWorkerMirroredStrategy strategy_{{.devices = configure_logical_cpus(1)}};

 private:
  void step_on(const PerReplica<Tensor>& inputs, const PerReplica<Tensor>& labels) {
    optimizer_.zero_grad();
    strategy_.run(
        [this](const Tensor& x, const Tensor& y) {
          (torch::nll_loss(torch::log_softmax(model_->forward(x), 1), y, {}, at::Reduction::Sum) / Training::kBatch)
              .backward();
        },
        inputs, labels);
    optimizer_.step();
  }

  Tensor inputs_, labels_;
  torch::nn::Sequential model_;
  torch::optim::SGD optimizer_;
  using Step = std::function<void(const PerReplica<Tensor>&, const PerReplica<Tensor>&)>;
  Function<Step> recorded_ =
      function(Step([this](const PerReplica<Tensor>& x, const PerReplica<Tensor>& y) { step_on(x, y); }));
};

class PlainStep {
 public:
  explicit PlainStep(int64_t rows)
      : inputs_(torch::rand({rows, 1200})),
        labels_(torch::randint(2, {rows}, torch::kLong)),
        model_(mlp().make()),
        optimizer_(model_->parameters(), 0.01) {}

  void step() {
    optimizer_.zero_grad();
    (torch::nll_loss(torch::log_softmax(model_->forward(inputs_), 1), labels_, {}, at::Reduction::Sum) /
     Training::kBatch)
        .backward();
    optimizer_.step();
  }

 private:
  Tensor inputs_, labels_;
  torch::nn::Sequential model_;
  torch::optim::SGD optimizer_;
};

struct Times {
  std::vector<double> seconds = {}, processor = {};

  template <class F>
  void add(F step, int steps) {
    const double before = processor_seconds();
    seconds.push_back(seconds_per_step(step, steps));
    processor.push_back((processor_seconds() - before) / steps);
  }
  void print(const char* what) const {
    std::printf("%-24s %10.1f us   p10 %10.1f   p90 %10.1f   cpu %10.1f us   p10 %10.1f\n", what,
                1e6 * quantile(seconds, 0.5), 1e6 * quantile(seconds, 0.1), 1e6 * quantile(seconds, 0.9),
                1e6 * quantile(processor, 0.5), 1e6 * quantile(processor, 0.1));
  }
};

void measure(int steps) {
  at::set_num_threads(1);
  WorkerTraining ours, recorded;
  PlainStep plain(Training::kBatch / ours.strategy_.num_replicas_in_sync());
  Times step, recorded_step, plain_step;
  for (int round = 0; round < 25; ++round) {
    ours.strategy_.reduce(ReduceOp::sum, torch::zeros({}));  // they begin together
    step.add([&] { ours.step(); }, steps);
    ours.strategy_.reduce(ReduceOp::sum, torch::zeros({}));
    recorded_step.add([&] { recorded.recorded_step(); }, steps);
    plain_step.add([&] { plain.step(); }, steps);
  }
  if (!ours.strategy_.is_chief()) return;
  std::printf("%d processes\n", static_cast<int>(ours.strategy_.num_replicas_in_sync()));
  step.print("step");
  recorded_step.print("recorded step");
  plain_step.print("plain step, own part");
}

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) {
  tutti::tune_allocator();
  tutti::benchmarks::measure(argc > 1 ? std::atoi(argv[1]) : 100);
}
