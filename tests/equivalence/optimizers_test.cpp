// Every optimizer, three steps in double precision, on 1 to 4 devices whose shards are uneven or empty, merged and
// separate buffers: the weights are those of one device on the whole batch, whichever way the program trains.
#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::equivalence {
namespace {

namespace nn = torch::nn;
namespace optim = torch::optim;

constexpr int64_t kRows[] = {7, 4, 7};  // of the batch of each step: on 3 replicas 3, 3, 1 and 2, 2, 0
constexpr double kClip = 0.05;          // below the norm of the gradients

// A tutti::Optimizer of any kind.
struct InReplicas {
  std::function<void()> zero_grad, sum_gradients, step;
};

struct OptimizerCase {
  std::string name;
  std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)> make;
  std::function<InReplicas(std::vector<Tensor>)> make_in_replicas;  // empty: it needs a closure
  bool needs_closure() const { return !make_in_replicas; }
};

template <class TorchOptimizer, class Options>
OptimizerCase with_closure(const std::string& name, const Options& options) {
  return {name, [options](std::vector<Tensor> parameters) {
            return std::make_unique<TorchOptimizer>(std::move(parameters), options);
          }};
}

template <class TorchOptimizer, class Options>
OptimizerCase optimizer(const std::string& name, const Options& options) {
  auto made = with_closure<TorchOptimizer>(name, options);
  made.make_in_replicas = [options](std::vector<Tensor> parameters) {
    const auto shared = std::make_shared<Optimizer<TorchOptimizer>>(TorchOptimizer(std::move(parameters), options));
    return InReplicas{[=] { shared->zero_grad(); }, [=] { shared->sum_gradients(); }, [=] { shared->step(); }};
  };
  return made;
}

std::vector<OptimizerCase> optimizer_cases() {
  return {
      optimizer<optim::SGD>("SGD", optim::SGDOptions(0.1)),
      optimizer<optim::SGD>("SGDMomentum", optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01)),
      optimizer<optim::SGD>("SGDNesterov", optim::SGDOptions(0.1).momentum(0.9).nesterov(true)),
      optimizer<optim::Adam>("Adam", optim::AdamOptions(0.01).weight_decay(0.01)),
      optimizer<optim::Adam>("AdamAmsgrad", optim::AdamOptions(0.01).amsgrad(true)),
      optimizer<optim::AdamW>("AdamW", optim::AdamWOptions(0.01)),
      optimizer<optim::Adagrad>("Adagrad", optim::AdagradOptions(0.05).lr_decay(0.1)),
      optimizer<optim::RMSprop>("RMSprop", optim::RMSpropOptions(0.01)),
      optimizer<optim::RMSprop>("RMSpropCentered", optim::RMSpropOptions(0.01).centered(true).momentum(0.9)),
      with_closure<optim::LBFGS>("LBFGS", optim::LBFGSOptions(0.1).max_iter(4)),
      with_closure<optim::LBFGS>("LBFGSStrongWolfe", optim::LBFGSOptions(1).max_iter(4).line_search_fn("strong_wolfe")),
  };
}

struct OptimizerParameters {
  OptimizerCase optimizer;
  int devices;
  bool merge;
};

void PrintTo(const OptimizerParameters& parameters, std::ostream* out) { *out << parameters.optimizer.name; }

std::vector<OptimizerParameters> all_optimizer_parameters() {
  std::vector<OptimizerParameters> all;
  for (const OptimizerCase& optimizer : optimizer_cases())
    for (const int devices : {1, 2, 3, 4})
      for (const bool merge : {true, false}) all.push_back({optimizer, devices, merge});
  return all;
}

std::string optimizer_name_of(const testing::TestParamInfo<OptimizerParameters>& info) {
  return info.param.optimizer.name + "_" + std::to_string(info.param.devices) +
         (info.param.merge ? "_merged" : "_separate");
}

nn::Sequential make_model() {
  torch::manual_seed(7);
  return nn::Sequential(nn::Linear(4, 5), nn::Tanh(), nn::Linear(5, 3));
}

struct Batch {
  Tensor x, y;
};

Batch batch_of(size_t step) {
  torch::manual_seed(100 + step);
  return {torch::randn({kRows[step], 4}), torch::randn({kRows[step], 3})};
}

Tensor loss_of(nn::Sequential model, const Tensor& x, const Tensor& y, size_t step) {
  return (model->forward(x) - y).square().sum() / static_cast<double>(kRows[step]);
}

std::vector<Tensor> values_of(const nn::Sequential& model) {
  std::vector<Tensor> values;
  for (const Tensor& parameter : model->parameters()) values.push_back(gather(parameter.detach()).clone());
  return values;
}

void expect_equal(const nn::Sequential& model, const std::vector<Tensor>& expected) {
  const auto values = values_of(model);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::allclose(values[i], expected[i], 0, 1e-9))
        << "weight " << i << " differs by " << (values[i] - expected[i]).abs().max().item<double>();
}

// One step as a LibTorch program takes it; `backward` computes a loss and its gradients.
void take_step(const OptimizerCase& kind, optim::Optimizer& optimizer, const std::vector<Tensor>& parameters,
               const std::function<Tensor()>& backward, std::optional<double> clip) {
  if (kind.needs_closure()) {
    optimizer.step([&] {
      optimizer.zero_grad();
      return backward();
    });
    return;
  }
  optimizer.zero_grad();
  backward();
  if (clip) nn::utils::clip_grad_norm_(parameters, *clip);
  optimizer.step();
}

Tensor loss_and_gradients(const nn::Sequential& model, const Batch& batch, size_t step) {
  const Tensor loss = loss_of(model, batch.x, batch.y, step);
  loss.backward();
  return loss.detach();
}

std::vector<Tensor> one_device(const OptimizerCase& kind, std::optional<double> clip = {}) {
  const auto model = make_model();
  const auto optimizer = kind.make(model->parameters());
  for (size_t step = 0; step < std::size(kRows); ++step) {
    const Batch batch = batch_of(step);
    take_step(
        kind, *optimizer, model->parameters(), [&] { return loss_and_gradients(model, batch, step); }, clip);
  }
  return values_of(model);
}

class Double : public testing::Test {
 protected:
  Double() { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  ~Double() override { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }

 private:
  Watchdog watchdog_{std::chrono::seconds(120)};
};

class Optimizers : public Double, public testing::WithParamInterface<OptimizerParameters> {
 protected:
  const OptimizerCase& kind() const { return GetParam().optimizer; }

  MirroredStrategy strategy{{.devices = test_devices(GetParam().devices), .mesh = {.merge = GetParam().merge}}};

  // What a replica does before its part of the batch has its gradients.
  Tensor run_backward(const nn::Sequential& model, size_t step) {
    const Batch batch = batch_of(step);
    const auto losses = strategy.run(
        [&](const Tensor& x, const Tensor& y) {
          return loss_and_gradients(model, {x, y}, step);
        },
        strategy.distribute(std::tuple(batch.x, batch.y)));
    return strategy.reduce(ReduceOp::sum, losses);
  }

  // Trains with an optimizer that steps inside run.
  void train_inside(const nn::Sequential& model, const std::function<void(const InReplicas&)>& after_backward) {
    const InReplicas optimizer = kind().make_in_replicas(model->parameters());
    for (size_t step = 0; step < std::size(kRows); ++step) {
      const Batch batch = batch_of(step);
      strategy.run(
          [&](const Tensor& x, const Tensor& y) {
            optimizer.zero_grad();
            loss_of(model, x, y, step).backward();
            after_backward(optimizer);
            optimizer.step();
          },
          strategy.distribute(std::tuple(batch.x, batch.y)));
    }
  }
};

TEST_P(Optimizers, InGlobalViewEqualOneDevice) {
  const auto model = strategy.build(make_model);
  const auto optimizer = kind().make(model->parameters());
  const auto sharded = [&](const Tensor& value) {
    return distribute_tensor(value, Layout(std::vector<std::string>{"replica", kUnsharded}, strategy.mesh()));
  };
  for (size_t step = 0; step < std::size(kRows); ++step) {
    const Batch batch = batch_of(step);
    const Batch mesh_batch{sharded(batch.x), sharded(batch.y)};
    take_step(
        kind(), *optimizer, model->parameters(), [&] { return loss_and_gradients(model, mesh_batch, step); }, kClip);
  }
  expect_equal(model, one_device(kind(), kClip));
}

TEST_P(Optimizers, SteppingOutsideRunEqualOneDevice) {
  const auto model = strategy.build(make_model);
  const auto optimizer = kind().make(model->parameters());
  for (size_t step = 0; step < std::size(kRows); ++step)
    take_step(
        kind(), *optimizer, model->parameters(), [&] { return run_backward(model, step); }, kClip);
  expect_equal(model, one_device(kind(), kClip));
}

TEST_P(Optimizers, SteppingInsideRunEqualOneDevice) {
  if (kind().needs_closure()) return;  // by contract it steps outside of run
  const auto model = strategy.build(make_model);
  train_inside(model, [](const InReplicas&) {});
  expect_equal(model, one_device(kind()));
}

TEST_P(Optimizers, ClippedInsideRunEqualOneDevice) {
  if (kind().needs_closure()) return;  // by contract it steps outside of run
  const auto model = strategy.build(make_model);
  train_inside(model, [&](const InReplicas& optimizer) {
    optimizer.sum_gradients();
    nn::utils::clip_grad_norm_(model->parameters(), kClip);
  });
  expect_equal(model, one_device(kind(), kClip));
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::ValuesIn(all_optimizer_parameters()), optimizer_name_of);

// The rest of a training loop, with SGD on three replicas of uneven shards.
class TrainingLoop : public Double {
 protected:
  using Sgd = Optimizer<optim::SGD>;

  MirroredStrategy strategy{{.devices = test_devices(3)}};
  nn::Sequential model = strategy.build(make_model);
  nn::Sequential plain = make_model();

  static optim::SGD sgd(const nn::Sequential& of) {
    return optim::SGD(of->parameters(), optim::SGDOptions(0.1).momentum(0.9));
  }

  template <class F>
  void run(size_t step, const F& f) {
    const Batch batch = batch_of(step);
    strategy.run([&](const Tensor& x, const Tensor& y) { f(loss_of(model, x, y, step)); },
                 strategy.distribute(std::tuple(batch.x, batch.y)));
  }
  void backward_in_run(size_t step) {
    run(step, [](const Tensor& loss) { loss.backward(); });
  }
  void backward_on_one_device(size_t step) {
    const Batch batch = batch_of(step);
    loss_of(plain, batch.x, batch.y, step).backward();
  }
  void expect_equal_gradients() {
    const auto actual = model->parameters(), expected = plain->parameters();
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(torch::allclose(gather(actual[i].grad()), expected[i].grad(), 0, 1e-9)) << "gradient " << i;
  }
};

TEST_F(TrainingLoop, ClipGradValueClipsTheSum) {
  auto wanted = sgd(plain);
  for (size_t step = 0; step < std::size(kRows); ++step) {
    wanted.zero_grad();
    backward_on_one_device(step);
    nn::utils::clip_grad_value_(plain->parameters(), 0.1);
    wanted.step();
  }
  auto outside = sgd(model);
  for (size_t step = 0; step < std::size(kRows); ++step) {
    outside.zero_grad();
    backward_in_run(step);
    nn::utils::clip_grad_value_(model->parameters(), 0.1);
    outside.step();
  }
  expect_equal(model, values_of(plain));

  model = strategy.build(make_model);
  Sgd inside(sgd(model));
  for (size_t step = 0; step < std::size(kRows); ++step)
    run(step, [&](const Tensor& loss) {
      inside.zero_grad();
      loss.backward();
      inside.sum_gradients();
      nn::utils::clip_grad_value_(model->parameters(), 0.1);
      inside.step();
    });
  expect_equal(model, values_of(plain));
}

TEST_F(TrainingLoop, LearningRateSchedulesHoldInsideRun) {
  auto wanted = sgd(plain);
  Sgd optimizer(sgd(model));
  optim::StepLR wanted_schedule(wanted, 1, 0.5), schedule(optimizer.get(), 1, 0.5);
  for (size_t step = 0; step < std::size(kRows); ++step) {
    wanted.zero_grad();
    backward_on_one_device(step);
    wanted.step();
    wanted_schedule.step();
    run(step, [&](const Tensor& loss) {
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    });
    schedule.step();
  }
  EXPECT_EQ(optimizer.get().param_groups()[0].options().get_lr(), 0.1 / 4);  // LibTorch decays from the second step on
  expect_equal(model, values_of(plain));
}

TEST_F(TrainingLoop, ZeroGradOutsideRunServesAStepInsideIt) {
  auto wanted = sgd(plain);
  Sgd optimizer(sgd(model));
  for (size_t step = 0; step < std::size(kRows); ++step) {
    wanted.zero_grad();
    backward_on_one_device(step);
    wanted.step();
    optimizer.zero_grad();
    run(step, [&](const Tensor& loss) {
      loss.backward();
      optimizer.step();
    });
  }
  expect_equal(model, values_of(plain));
}

TEST_F(TrainingLoop, ZeroGradInsideRunServesAStepOutsideIt) {
  auto wanted = sgd(plain);
  Sgd optimizer(sgd(model));
  for (size_t step = 0; step < std::size(kRows); ++step) {
    wanted.zero_grad();
    backward_on_one_device(step);
    wanted.step();
    run(step, [&](const Tensor& loss) {
      optimizer.zero_grad();
      loss.backward();
    });
    optimizer.step();
  }
  expect_equal(model, values_of(plain));
}

TEST_F(TrainingLoop, GradientsAccumulateOverRuns) {
  for (size_t step = 0; step < 3; ++step) {
    backward_in_run(step);
    backward_on_one_device(step);
    if (step == 1) expect_equal_gradients();  // reading them changes nothing
  }
  expect_equal_gradients();
}

TEST_F(TrainingLoop, GradientsAccumulateOverAStep) {
  auto wanted = sgd(plain);
  Sgd optimizer(sgd(model));
  for (size_t step = 0; step < 3; ++step) {
    backward_on_one_device(step);
    wanted.step();
    run(step, [&](const Tensor& loss) {
      loss.backward();
      optimizer.step();
    });
  }
  expect_equal(model, values_of(plain));
}

TEST_F(TrainingLoop, AStepSkippedAfterSumGradientsLeavesNothingBehind) {
  Sgd optimizer(sgd(model));
  run(0, [&](const Tensor& loss) {
    loss.backward();
    optimizer.sum_gradients();
    optimizer.zero_grad();
  });
  auto wanted = sgd(plain);
  backward_on_one_device(1);
  wanted.step();
  run(1, [&](const Tensor& loss) {
    loss.backward();
    optimizer.step();
  });
  expect_equal(model, values_of(plain));
}

TEST_F(TrainingLoop, BackwardBetweenSumGradientsAndStepIsAnError) {
  Sgd optimizer(sgd(model));
  const auto twice = [&](const Tensor& loss) {
    loss.backward({}, /*retain_graph=*/true);
    optimizer.sum_gradients();
    loss.backward();
  };
  EXPECT_THAT(error_of([&] { run(0, twice); }), testing::HasSubstr("failed_precondition"));
}

TEST_F(TrainingLoop, ReplicasAtDifferentOptimizersDoNotMeet) {
  Sgd one(sgd(model)), other(sgd(model));
  EXPECT_THAT(error_of([&] {
                run(0, [&](const Tensor&) {
                  const bool first = get_replica_context().replica_id_in_sync_group() == 0;
                  (first ? one : other).step();
                });
              }),
              testing::HasSubstr("failed_precondition"));
}

TEST_F(TrainingLoop, AGradientThatAReplicaLacksCountsAsZero) {
  const Tensor x = torch::ones({2, 4});
  strategy.run([&] {
    if (get_replica_context().replica_id_in_sync_group() == 1) model->forward(x).sum().backward();
  });
  plain->forward(x).sum().backward();
  expect_equal_gradients();
}

TEST_F(TrainingLoop, MeanOfGradientsSuitsLossesThatAreMeansOverTheirShard) {
  auto mean_model = strategy.build(make_model, {.gradients = ReduceOp::mean});
  auto optimizer = sgd(mean_model), wanted = sgd(plain);
  for (uint64_t step = 0; step < 3; ++step) {
    torch::manual_seed(step);
    const Tensor x = torch::randn({6, 4});
    strategy.run([&](const Tensor& part) { mean_model->forward(part).square().mean().backward(); },
                 strategy.distribute(x));  // no zero_grad: what is accumulated is the mean, too
    plain->forward(x).square().mean().backward();
    optimizer.step();
    wanted.step();
  }
  expect_equal(mean_model, values_of(plain));
}

}  // namespace
}  // namespace tutti::equivalence
