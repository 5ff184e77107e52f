#pragma once

#include <optional>
#include <thread>

#include "paired.h"
#include "tutti/tutti.h"

namespace tutti::benchmarks {

// A model and one global batch of 64 for it.
struct Task {
  torch::nn::Sequential (*make)();
  std::vector<int64_t> input;  // without the batch axis
  int64_t classes;
};

inline Task mnist_cnn() {
  return {[] {
            return torch::nn::Sequential(torch::nn::Conv2d(1, 32, 3), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                                         torch::nn::Flatten(), torch::nn::Linear(32 * 13 * 13, 64), torch::nn::ReLU(),
                                         torch::nn::Linear(64, 10));
          },
          {1, 28, 28},
          10};
}

inline Task mlp() {
  return {
      [] { return torch::nn::Sequential(torch::nn::Linear(1200, 48), torch::nn::ReLU(), torch::nn::Linear(48, 2)); },
      {1200},
      2};
}

// One SGD step of a task, as a program without Tutti takes it (no replicas given), or on the replicas of a strategy.
class Training {
 public:
  static constexpr int64_t kBatch = 64;

  explicit Training(const Task& task, std::optional<int> replicas = {}) {
    std::vector<int64_t> shape = {kBatch};
    shape.insert(shape.end(), task.input.begin(), task.input.end());
    inputs_ = torch::rand(shape);
    labels_ = torch::randint(task.classes, {kBatch}, torch::kLong);
    if (replicas) strategy_.emplace(MirroredStrategyOptions{.devices = configure_logical_cpus(*replicas)});
    model_ = strategy_ ? strategy_->build(task.make) : task.make();
    optimizer_.emplace(model_->parameters(), 0.01);
  }

  void step() {
    optimizer_->zero_grad();
    if (strategy_)
      strategy_->run([this](const Tensor& x, const Tensor& y) { backward(x, y); }, strategy_->distribute(inputs_),
                     strategy_->distribute(labels_));
    else
      backward(inputs_, labels_);
    optimizer_->step();
  }

 private:
  void backward(const Tensor& inputs, const Tensor& labels) {
    const Tensor losses = torch::cross_entropy_loss(model_->forward(inputs), labels, {}, at::Reduction::Sum);
    (losses / kBatch).backward();
  }

  Tensor inputs_, labels_;
  std::optional<MirroredStrategy> strategy_;
  torch::nn::Sequential model_;
  std::optional<torch::optim::SGD> optimizer_;
};

// Lets LibTorch use one core or all of them on this thread, whichever is faster for `step`; returns how many.
template <class Step>
int use_best_thread_count(Step step, int steps) {
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<double> with_one, with_all;
  for (int i = 0; i < 9; ++i) {
    at::set_num_threads(1);
    with_one.push_back(seconds_per_step(step, steps));
    at::set_num_threads(all);
    with_all.push_back(seconds_per_step(step, steps));
  }
  const int best = quantile(with_one, 0.5) <= quantile(with_all, 0.5) ? 1 : all;
  at::set_num_threads(best);
  return best;
}

}  // namespace tutti::benchmarks
