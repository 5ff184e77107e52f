// What served_functions_test.py starts as chief, a worker and servers, and alone: functions that do to variables what
// those of programs do. The chief prints what each gives and leaves, which is the same in both.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/functional/embedding.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include <filesystem>
#include <iostream>
#include <limits>

#include "tutti/checkpoint/checkpoint.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/embedding_lookup.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"

namespace {

using namespace tutti;

struct Net : torch::nn::Module {
  Tensor weight, table, roots, gain, halves, best, fine, count, flags, seen;

  Net() {
    weight = register_parameter("weight", at::ones({2}));
    table = register_parameter("table", at::zeros({6, 2}));
    roots = register_parameter("roots", at::ones({2}, at::kComplexFloat));
    gain = register_parameter("gain", at::ones({}));
    halves = register_parameter("halves", at::arange(4, at::kDouble).view({2, 2}));  // what it is a view of lives on
    best = register_buffer("best", at::full({}, std::numeric_limits<float>::infinity()));
    fine = register_buffer("fine", at::full({}, 1000.0));
    count = register_buffer("count", at::zeros({}));
    flags = register_buffer("flags", at::zeros({3}, at::kBool));
    seen = register_buffer("seen", at::zeros({4}).view({2, 2}));
  }
};

void print(const char* what, const Tensor& value) {
  std::cout << what << ':';
  const Tensor numbers = value.detach().reshape({-1}).to(at::kDouble);
  for (int64_t i = 0; i < numbers.numel(); ++i) std::cout << ' ' << numbers[i].item<double>();
  std::cout << std::endl;
}

class Program {
 public:
  explicit Program(const std::filesystem::path& folder)
      : folder_(folder),
        strategy_({.variable_partitioner = FixedShardsPartitioner(2),
                   .devices = configure_logical_cpus(1),
                   .connect_timeout = std::chrono::seconds(60)}),
        net_(strategy_.build([] { return std::make_shared<Net>(); })),
        sgd_(strategy_.build([this] {
          return std::make_shared<Optimizer<torch::optim::SGD>>(
              torch::optim::SGD(net_->parameters(), torch::optim::SGDOptions(0.25)));
        })),
        adam_(strategy_.build([this] {
          keras::optimizers::Adam made({.learning_rate = 0.125, .use_ema = true, .ema_momentum = 0.5});
          made.build({net_->gain, net_->halves});
          return made;
        })),
        overwriting_(strategy_.build([this] {
          keras::optimizers::SGD made(
              {.learning_rate = 0.125, .use_ema = true, .ema_momentum = 0.5, .ema_overwrite_frequency = 2});
          made.build({net_->gain, net_->halves});
          return made;
        })),
        detached_(net_->weight.detach()),
        element_(net_->weight[1]),
        shards_(strategy_.shards(net_->table)),
        coordinator_(strategy_),
        step_(coordinator_.function("step", [this] { return step([&] { return net_->weight.sum(); }); })),
        three_steps_(coordinator_.function("three_steps",
                                           [this] {
                                             std::vector<Tensor> losses;
                                             for (int i = 0; i < 3; ++i)
                                               losses.push_back(step([&] { return net_->weight.square().sum(); }));
                                             return at::stack(losses);
                                           })),
        read_behind_step_(coordinator_.function("read_behind_step",
                                                [this] {
                                                  step([&] { return net_->weight.sum() + embedded(at::tensor({2})); });
                                                  const at::NoGradGuard no_grad;
                                                  return at::stack({net_->weight.sum(), net_->table.sum()});
                                                })),
        old_graph_(coordinator_.function("old_graph",
                                         [this] {
                                           bool is_refused = false;
                                           strategy_.run([&] {
                                             const Tensor old = net_->weight.square().sum();
                                             sgd_->zero_grad();
                                             net_->weight.sum().backward();
                                             sgd_->step();
                                             try {
                                               old.backward();
                                             } catch (const std::exception&) {
                                               is_refused = true;
                                             }
                                             return at::zeros({});
                                           });
                                           return at::full({}, is_refused ? 1 : 0);
                                         })),
        conjugate_(coordinator_.function(
            "conjugate",
            [this] {
              const Tensor by = at::view_as_complex(at::tensor({0.F, 1.F, 0.F, 2.F}).view({2, 2}));
              return step([&] { return at::real(net_->roots.conj() * by).sum(); });
            })),
        rows_(coordinator_.function("rows", [this] { return step([&] {
                                                       return embedded(at::tensor({1, 4, 1}));
                                                     }); })),
        rows_and_noise_(coordinator_.function("rows_and_noise",
                                              [this] {
                                                return strategy_.reduce(ReduceOp::sum, strategy_.run([&] {
                                                  sgd_->zero_grad();
                                                  const Tensor loss = embedded(at::tensor({1}));
                                                  loss.backward();
                                                  net_->table.mutable_grad() = net_->table.grad() + 1;
                                                  sgd_->step();
                                                  return loss.detach();
                                                }));
                                              })),
        best_(coordinator_.function("best",
                                    [this](float value) {
                                      const at::NoGradGuard no_grad;
                                      net_->best.copy_(at::minimum(net_->best, at::full({}, value)));
                                      return net_->best.clone();
                                    })),
        fine_(coordinator_.function("fine",
                                    [this] {
                                      const at::NoGradGuard no_grad;
                                      net_->fine.fill_(0.001F);
                                      return net_->fine.clone();
                                    })),
        flags_(coordinator_.function("flags",
                                     [this] {
                                       const at::NoGradGuard no_grad;
                                       net_->flags[1].fill_(true);
                                       return net_->flags.clone();
                                     })),
        views_(coordinator_.function("views", [this] { return all_views(); })),
        step_and_views_(coordinator_.function("step_and_views",
                                              [this] {
                                                step([&] { return net_->weight.sum() + embedded(at::tensor({5})); });
                                                return all_views();
                                              })),
        view_made_(coordinator_.function("view_made",
                                         [this] {
                                           step([&] { return net_->halves.square().sum(); });
                                           const at::NoGradGuard no_grad;
                                           net_->seen.add_(1);
                                           return net_->seen.clone();
                                         })),
        keras_gain_(
            coordinator_.function("keras_gain", [this] { return apply_keras(net_->gain.square(), {net_->gain}); })),
        keras_both_(
            coordinator_.function("keras_both",
                                  [this] {
                                    return apply_keras(net_->gain * net_->halves.sum(), {net_->gain, net_->halves});
                                  })),
        read_(coordinator_.function("read",
                                    [this] {
                                      const at::NoGradGuard no_grad;
                                      return at::cat({net_->count.reshape({-1}), net_->weight.detach()});
                                    })),
        spoil_buffer_(coordinator_.function("spoil_buffer",
                                            [this]() -> Tensor {
                                              net_->count.add_(7);
                                              throw Error(ErrorCode::data_loss, "a bad record");
                                            })),
        spoil_variable_(coordinator_.function("spoil_variable", [this]() -> Tensor {
          const at::NoGradGuard no_grad;
          net_->weight.fill_(100);
          throw Error(ErrorCode::data_loss, "a bad record");
        })) {}

  void run() {
    coordinator_.run([&] {
      call("three steps", three_steps_);
      call("read behind a step", read_behind_step_);
      call("a graph that a step has made old", old_graph_);
      call("conjugate gradient", conjugate_);
      print("  roots", at::view_as_real(net_->roots));
      call("rows", rows_);
      call("rows and noise", rows_and_noise_);
      print("  table", net_->table);
      for (const float value : {0.5F, 0.25F}) {
        call("best", best_, value);
        print("  best", net_->best);
      }
      call("fine", fine_);
      print("  fine", net_->fine);
      call("flags", flags_);
      print("  flags", net_->flags);
      call("views of before", views_);
      call("views of before, behind a step", step_and_views_);
      for (int i = 0; i < 2; ++i) call("a variable that was made as a view", view_made_);
      print("  halves", net_->halves);
      print("  seen", net_->seen);
      for (int i = 0; i < 2; ++i) call("an update of a part of Keras's variables", keras_gain_);
      print_averages();
      call("an update of all", keras_both_);
      for (int i = 0; i < 2; ++i) call("an update of a part of Keras's variables", keras_gain_);
      print("  gain", net_->gain);
      print("  halves", net_->halves);
      print_averages();
      throw_and_read("a buffer of a function that throws", spoil_buffer_, net_->count);
      throw_and_read("a variable of a function that throws", spoil_variable_, net_->weight);
    });
    write_between_runs();
  }

 private:
  template <class F, class... Args>
  void call(const char* what, const F& function, const Args&... arguments) {
    print(what, coordinator_.schedule(function, arguments...).fetch());
    coordinator_.join();
  }

  void print_averages() {
    adam_.swap_averages();
    print("  average", net_->halves);
    adam_.swap_averages();
  }

  // In one process it stays what the function left; in a cluster it never becomes that.
  template <class F>
  void throw_and_read(const char* what, const F& function, const Tensor& variable) {
    coordinator_.schedule(function);
    try {
      coordinator_.join();
    } catch (const Error&) {
    }
    const Tensor there = coordinator_.schedule(read_).fetch();
    coordinator_.join();
    const Tensor here = at::cat({net_->count.reshape({-1}), net_->weight.detach()});
    std::cout << what << (there.equal(here) ? ": is the same here and there" : ": differs") << std::endl;
    const at::NoGradGuard no_grad;
    Tensor(variable).fill_(1);
  }

  // What the chief writes while nothing is under way goes to the servers, whether the run before has failed or not.
  void write_between_runs() {
    const Checkpoint checkpoint({{"net", *net_}});
    if (strategy_.is_coordinator()) checkpoint.write(folder_);
    try {
      coordinator_.run([&] {
        for (int i = 0; i < 2; ++i) coordinator_.schedule(step_).fetch();
        throw Error(ErrorCode::data_loss, "no more");
      });
    } catch (const Error&) {
    }
    for (const double rate : {0.125, 0.0625}) {
      if (strategy_.is_coordinator()) {
        print("weight behind a run", net_->weight);
        checkpoint.restore(folder_).assert_consumed();
        for (auto& group : sgd_->get().param_groups()) group.options().set_lr(rate);
      }
      coordinator_.run([&] {
        print("weight in the next one", net_->weight);
        call("a step of that", step_);
        print("  weight", net_->weight);
      });
    }
  }

  Tensor step(const std::function<Tensor()>& loss) {
    return strategy_.reduce(ReduceOp::sum, strategy_.run([&] {
      sgd_->zero_grad();
      const Tensor value = loss();
      value.backward();
      sgd_->step();
      return value.detach();
    }));
  }
  Tensor apply_keras(const Tensor& loss, const std::vector<Tensor>& variables) const {
    const auto found = gradients(loss, variables);
    adam_.apply_gradients(found, variables);
    overwriting_.apply_gradients(found, variables);
    const at::NoGradGuard no_grad;
    return at::stack({loss.detach().to(at::kDouble), net_->halves.sum()});
  }
  Tensor embedded(const Tensor& ids) const { return torch::nn::functional::embedding(ids, net_->table).sum(); }
  Tensor all_views() const {
    const at::NoGradGuard no_grad;
    return at::stack({detached_.sum(), element_.sum(), embedding_lookup(shards_, at::tensor({0, 5})).sum()});
  }

  const std::filesystem::path folder_;
  ParameterServerStrategy strategy_;
  const std::shared_ptr<Net> net_;
  const std::shared_ptr<Optimizer<torch::optim::SGD>> sgd_;
  const keras::optimizers::Adam adam_;
  const keras::optimizers::SGD overwriting_;
  const Tensor detached_, element_;
  const ShardedVariable shards_;
  ClusterCoordinator coordinator_;
  const WorkerFunction<Tensor()> step_;
  const WorkerFunction<Tensor()> three_steps_;
  const WorkerFunction<Tensor()> read_behind_step_;
  const WorkerFunction<Tensor()> old_graph_;
  const WorkerFunction<Tensor()> conjugate_;
  const WorkerFunction<Tensor()> rows_;
  const WorkerFunction<Tensor()> rows_and_noise_;
  const WorkerFunction<Tensor(float)> best_;
  const WorkerFunction<Tensor()> fine_;
  const WorkerFunction<Tensor()> flags_;
  const WorkerFunction<Tensor()> views_;
  const WorkerFunction<Tensor()> step_and_views_;
  const WorkerFunction<Tensor()> view_made_;
  const WorkerFunction<Tensor()> keras_gain_;
  const WorkerFunction<Tensor()> keras_both_;
  const WorkerFunction<Tensor()> read_;
  const WorkerFunction<Tensor()> spoil_buffer_;
  const WorkerFunction<Tensor()> spoil_variable_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    Program(argv[1]).run();
  } catch (const Error& error) {
    std::cerr << to_string(error.code()) << ": " << error.what() << '\n' << std::flush;
    return 3;
  }
  return 0;
}
