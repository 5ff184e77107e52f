// Functions that use variables of a strategy or a mesh, and functions with run inside, against the same without.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/same_bits.h"
#include "tests/support/test_devices.h"
#include "tests/support/test_graphs.h"
#include "tutti/core/error.h"
#include "tutti/data/dataset.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/function/function.h"
#include "tutti/function/program.h"
#include "tutti/function/repeat.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti {
namespace {

[[maybe_unused]] const bool kAsGraphs = test_graphs();

using ::testing::HasSubstr;

// A model under a strategy of several replicas, and a step of each replica.
struct Replicated {
  explicit Replicated(int num_replicas, bool build_now = true) : strategy({.devices = test_devices(num_replicas)}) {
    torch::manual_seed(5);
    model = strategy.build([&] {
      keras::Sequential made({keras::layers::Dense({.units = 8, .activation = "relu"}),
                              keras::layers::BatchNormalization(), keras::layers::Dropout({.rate = 0.5}),
                              keras::layers::Dense({.units = 1})});
      if (build_now) made.build({keras::kUnknown, 3});
      return made;
    });
  }

  Tensor replica_step(const Tensor& x, const Tensor& y) {
    const Tensor loss =
        compute_average_loss((model(x, {.training = true}) - y).square().squeeze(1), {.global_batch_size = 8});
    optimizer.apply_gradients(gradients(loss, model.trainable_variables()), model.trainable_variables());
    return loss.detach();
  }
  Tensor step(const PerReplica<std::tuple<Tensor, Tensor>>& batch) {
    return strategy.reduce(ReduceOp::sum,
                           strategy.run([&](const Tensor& x, const Tensor& y) { return replica_step(x, y); }, batch));
  }

  MirroredStrategy strategy;
  keras::Sequential model{{}};
  keras::optimizers::Adam optimizer{{.learning_rate = 0.05}};
};

class FunctionWithRun : public testing::TestWithParam<int> {};

TEST_P(FunctionWithRun, TrainsAsPlainCallsDo) {
  for (const bool build_now : {true, false}) {
    Replicated plain(GetParam(), build_now), own(GetParam(), build_now);
    const auto step = function([&](const PerReplica<std::tuple<Tensor, Tensor>>& batch) { return own.step(batch); });
    for (int i = 0; i < 8; ++i) {
      torch::manual_seed(100 + i / 3);
      const auto batch = plain.strategy.distribute(std::tuple(torch::randn({8, 3}), torch::randn({8, 1})));
      torch::manual_seed(200 + i / 3);
      const Tensor wanted = plain.step(batch);
      torch::manual_seed(200 + i / 3);
      EXPECT_TRUE(same_bits(step(batch), wanted)) << "step " << i;
      const auto weights = own.model.get_weights(), others = plain.model.get_weights();
      for (size_t w = 0; w < weights.size(); ++w) EXPECT_TRUE(same_bits(weights[w], others[w])) << i << ", " << w;
    }
    EXPECT_LE(step.tracing_count(), 3);
    EXPECT_EQ(own.optimizer.iterations(), 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, FunctionWithRun, testing::Values(1, 2, 4));

// Replicas that take their time, with a meeting in between.
TEST(FunctionOnDevices, ReplicasThatTakeTimeAreReplayedAtOnce) {
  MirroredStrategy strategy({.devices = test_devices(3)});
  std::atomic<int> working{0}, most{0};
  const auto work = [&](at::ArrayRef<Tensor>) {
    most = std::max<int>(most, ++working);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    --working;
  };
  const auto step = [&](const PerReplica<Tensor>& batch) {
    return strategy.reduce(ReduceOp::sum, strategy.run(
                                              [&](const Tensor& x) {
                                                host_step("work", {}, {}, work);
                                                const Tensor hidden = (x.mm(x.t()) * 0.25).exp().relu();
                                                const ReplicaContext context = get_replica_context();
                                                const Tensor all = context.all_reduce(ReduceOp::sum, hidden * 2);
                                                host_step("work", {}, {}, work);
                                                return (all.softmax(1) * hidden).sum();
                                              },
                                              batch));
  };
  const auto recorded = function(step);
  for (int i = 0; i < 12; ++i) {
    const auto batch = strategy.distribute(torch::randn({15, 4}));
    torch::manual_seed(i);
    const Tensor wanted = step(batch);
    most = 0;
    torch::manual_seed(i);
    EXPECT_TRUE(same_bits(recorded(batch), wanted)) << "call " << i;
    EXPECT_TRUE(i >= 2 || most == 1);  // while it is recorded, one after the other
  }
  EXPECT_EQ(most > 1, test_devices_are_cpus());  // one thread gives GPUs their work
  EXPECT_EQ(recorded.tracing_count(), 2);
}

TEST(FunctionOnDevices, ReplicasDrawInAReplayWhatTheyDrawWithoutIt) {
  MirroredStrategy strategy({.devices = test_devices(3)});
  const auto step = [&](const PerReplica<Tensor>& batch) {
    const auto noisy = strategy.run(
        [](const Tensor& x) {
          return (x * torch::empty({5, 4}, x.options()).uniform_()).sum();
        },
        batch);
    return strategy.reduce(ReduceOp::sum, noisy);
  };
  const auto recorded = function(step);
  for (int i = 0; i < 6; ++i) {
    const auto batch = strategy.distribute(torch::ones({15, 4}));
    set_random_seed(static_cast<uint64_t>(i));
    const Tensor wanted = step(batch);
    set_random_seed(static_cast<uint64_t>(i));
    EXPECT_TRUE(same_bits(recorded(batch), wanted)) << "call " << i;
  }
}

TEST(FunctionOnDevices, RefusesDrawsOfReplicasThatTakeNoGenerator) {
  MirroredStrategy strategy({.devices = test_devices(3)});
  const auto recorded = function([&](const PerReplica<Tensor>& batch) {
    return strategy.reduce(ReduceOp::sum, strategy.run(
                                              [](const Tensor& x) {
                                                return (x * torch::rand({5, 4})).sum();
                                              },
                                              batch));
  });
  EXPECT_THAT(
      error_of([&] {
        recorded(strategy.distribute(torch::ones({15, 4})));
      }),
      testing::AllOf(testing::HasSubstr("unimplemented"), testing::HasSubstr("aten::rand draws random numbers")));
}

TEST(FunctionOnDevices, AShortLastBatchIsRecordedAnew) {
  Replicated plain(2), own(2);
  const auto step = function([&](const PerReplica<std::tuple<Tensor, Tensor>>& batch) { return own.step(batch); });
  for (int i = 0; i < 12; ++i) {
    const int rows = i % 4 == 3 ? 5 : 8;
    torch::manual_seed(i);
    const auto batch = plain.strategy.distribute(std::tuple(torch::randn({rows, 3}), torch::randn({rows, 1})));
    torch::manual_seed(i);
    const Tensor wanted = plain.step(batch);
    torch::manual_seed(i);
    EXPECT_TRUE(same_bits(step(batch), wanted)) << "step " << i;
  }
}

TEST(FunctionOnDevices, SeesWhatOthersWriteBetweenItsCalls) {
  Replicated plain(2), own(2);
  const auto step = function([&](const PerReplica<std::tuple<Tensor, Tensor>>& batch) { return own.step(batch); });
  for (int i = 0; i < 10; ++i) {
    const auto batch = plain.strategy.distribute(std::tuple(torch::ones({8, 3}) * i, torch::ones({8, 1})));
    torch::manual_seed(i);
    const Tensor wanted = plain.step(batch);
    torch::manual_seed(i);
    EXPECT_TRUE(same_bits(step(batch), wanted)) << "step " << i;
    for (Replicated* each : {&plain, &own}) {
      if (i == 4) each->model.set_weights(each->model.get_weights());
      if (i == 6) static_cast<void>(each->strategy.run([&] { return each->model(torch::ones({2, 3})); }));
      const torch::NoGradGuard no_grad;
      if (i == 7) each->model.trainable_variables()[0].mul_(0.5);
    }
    const auto weights = own.model.get_weights(), others = plain.model.get_weights();
    for (size_t w = 0; w < weights.size(); ++w) EXPECT_TRUE(same_bits(weights[w], others[w])) << i << ", " << w;
  }
}

TEST(FunctionOnDevices, TrainsALibTorchModuleInGlobalView) {
  struct Net {
    MirroredStrategy strategy{{.devices = test_devices(4)}};
    torch::nn::Sequential layers{nullptr};
    std::optional<torch::optim::SGD> optimizer;
    Net() {
      torch::manual_seed(3);
      layers = strategy.build([] {
        return torch::nn::Sequential(torch::nn::Linear(6, 5), torch::nn::BatchNorm1d(5), torch::nn::ReLU(),
                                     torch::nn::Linear(5, 3));
      });
      optimizer.emplace(layers->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    }
    Tensor step(const Tensor& x, const Tensor& y) {
      optimizer->zero_grad();
      const Tensor loss = torch::nll_loss(torch::log_softmax(layers->forward(x), 1), y);
      loss.backward();
      optimizer->step();
      return loss.detach();
    }
  } plain, own;
  const auto step = function([&](const Tensor& x, const Tensor& y) { return own.step(x, y); });
  for (int i = 0; i < 8; ++i) {
    const Tensor x = torch::randn({8, 6}), y = torch::randint(3, {8});
    EXPECT_TRUE(same_bits(step(x, y), plain.step(x, y))) << "step " << i;
    for (size_t p = 0; p < plain.layers->parameters().size(); ++p) {
      EXPECT_TRUE(same_bits(own.layers->parameters()[p], plain.layers->parameters()[p])) << i << ", " << p;
      EXPECT_TRUE(same_bits(own.layers->parameters()[p].grad(), plain.layers->parameters()[p].grad())) << i;
    }
  }
  EXPECT_LE(step.tracing_count(), 3);
}

// Two meshes of two dimensions, whose values lie in one buffer or in several.
class FunctionOnAMesh : public testing::TestWithParam<bool> {
 protected:
  const Mesh mesh_{{{"x", 2}, {"y", 2}}, test_devices(4), {.merge = GetParam()}};
  const Layout rows_{{"x", kUnsharded}, mesh_};
  const Layout columns_{{kUnsharded, "y"}, mesh_};
};

TEST_P(FunctionOnAMesh, ShardedValuesGiveTheBitsOfPlainCalls) {
  const Tensor w = distribute_tensor(torch::randn({5, 6}), columns_);
  const auto f = [&](const Tensor& x) { return torch::tanh(torch::matmul(x, w)).sum({0}) + x.mean(); };
  const auto g = function(f);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = distribute_tensor(torch::randn({7, 5}), rows_);
    const Tensor made = g(x), wanted = f(x);
    EXPECT_TRUE(same_bits(made, wanted)) << "call " << i;
    EXPECT_EQ(layout_of(made), layout_of(wanted));
  }
  EXPECT_EQ(g.tracing_count(), 2);
}

TEST_P(FunctionOnAMesh, AVariableIsWrittenWhereItLies) {
  const Tensor start = torch::randn({6, 5});
  Tensor plain = distribute_tensor(start, rows_), own = distribute_tensor(start, rows_);
  const auto update = [](Tensor& w, const Tensor& x) {
    w.mul_(0.5).add_(relayout(x, layout_of(w)));
    return w.sum();
  };
  const auto f = function([&](const Tensor& x) { return update(own, x); });
  for (int i = 0; i < 6; ++i) {
    const Tensor x = distribute_tensor(torch::randn({6, 5}), columns_);
    EXPECT_TRUE(same_bits(f(x), update(plain, x))) << "call " << i;
    EXPECT_TRUE(same_bits(own, plain)) << "call " << i;
  }
}

TEST_P(FunctionOnAMesh, AVariableThatItReturnsIsTheVariable) {
  const Tensor w = distribute_tensor(torch::randn({6, 5}), rows_);
  const auto f = function([&](const Tensor& x) { return std::pair(w, w * x); });
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(f(torch::ones({})).first.is_same(w));
}

TEST_P(FunctionOnAMesh, AWrittenArgumentIsRefused) {
  const auto f = function([](Tensor x) { return x.add_(1); }, {.name = "f"});
  const Tensor x = distribute_tensor(torch::zeros({6, 5}), rows_);
  EXPECT_THAT(what_of([&] { f(x); }), HasSubstr("f: the function writes to a mesh tensor that is its argument"));
}

INSTANTIATE_TEST_SUITE_P(Buffers, FunctionOnAMesh, testing::Bool());

TEST(FunctionOnDevices, CalledInReplicasRecordsForEach) {
  Replicated plain(2), own(2);
  const auto forward = [](Replicated& all, const Tensor& x) {
    const Tensor loss = all.model(x, {.training = true}).square().mean();
    return std::pair(loss.detach(), gradients(loss, all.model.trainable_variables()));
  };
  const auto f = function([&](const Tensor& x) { return forward(own, x); });
  const auto step = [](Replicated& all, const auto& call, const PerReplica<Tensor>& batch) {
    const auto losses = all.strategy.run(
        [&](const Tensor& x) {
          auto [loss, made] = call(x);
          all.optimizer.apply_gradients(made, all.model.trainable_variables());
          return loss;
        },
        batch);
    return all.strategy.reduce(ReduceOp::sum, losses);
  };
  for (int i = 0; i < 8; ++i) {
    const auto batch = plain.strategy.distribute(torch::randn({8, 3}));
    torch::manual_seed(i);
    const Tensor wanted = step(
        plain, [&](const Tensor& x) { return forward(plain, x); }, batch);
    torch::manual_seed(i);
    EXPECT_TRUE(same_bits(step(own, f, batch), wanted)) << "step " << i;
    const auto weights = own.model.get_weights(), others = plain.model.get_weights();
    for (size_t w = 0; w < weights.size(); ++w) EXPECT_TRUE(same_bits(weights[w], others[w])) << i << ", " << w;
  }
  EXPECT_EQ(f.tracing_count(), 4);  // two for each replica
}

TEST(FunctionOnDevices, AMeetingInAFunctionThatAReplicaCallsIsRefused) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  const auto f = function([&](const Tensor& x) { return get_replica_context().all_reduce(ReduceOp::sum, x); });
  EXPECT_THAT(what_of([&] { strategy.run([&] { return f(torch::ones({2})); }); }),
              HasSubstr("call run inside of the function instead"));
}

TEST(FunctionOnDevices, CollectivesOfReplicasAreSteps) {
  MirroredStrategy strategy({.devices = test_devices(3)});
  const auto f = [&](const PerReplica<Tensor>& x) {
    return strategy.run(
        [](const Tensor& own) {
          const auto context = get_replica_context();
          const Tensor sum = context.all_reduce(ReduceOp::mean, own * own);
          return std::pair(sum, context.all_gather(own - sum, 0));
        },
        x);
  };
  const auto g = function(f);
  for (int i = 0; i < 5; ++i) {
    const auto x = strategy.distribute(torch::randn({6, 2}));
    const auto wanted = f(x), made = g(x);
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_TRUE(same_bits(made[r].first, wanted[r].first)) << i;
      EXPECT_TRUE(same_bits(made[r].second, wanted[r].second)) << i;
    }
  }
  EXPECT_EQ(g.tracing_count(), 2);
}

TEST(FunctionOnDevices, LibTorchsOptimizerStepsWhereReplicasMeet) {
  struct Net {
    MirroredStrategy strategy{{.devices = test_devices(2)}};
    torch::nn::Linear layer{nullptr};
    std::optional<Optimizer<torch::optim::SGD>> optimizer;
    Net() {
      torch::manual_seed(3);
      layer = strategy.build([] { return torch::nn::Linear(4, 2); });
      optimizer.emplace(torch::optim::SGD(layer->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)));
    }
    PerReplica<Tensor> step(const PerReplica<Tensor>& batch) {
      return strategy.run(
          [&](const Tensor& x) {
            optimizer->zero_grad();
            const Tensor loss = layer->forward(x).square().sum();
            loss.backward();
            optimizer->step();
            return loss.detach();
          },
          batch);
    }
  } plain, own;
  const auto step = function([&](const PerReplica<Tensor>& batch) { return own.step(batch); });
  for (int i = 0; i < 8; ++i) {
    const auto batch = plain.strategy.distribute(torch::randn({6, 4}));
    const auto made = step(batch), wanted = plain.step(batch);
    for (size_t r = 0; r < 2; ++r) EXPECT_TRUE(same_bits(made[r], wanted[r])) << i;
    EXPECT_TRUE(same_bits(own.layer->weight, plain.layer->weight)) << i;
    EXPECT_TRUE(same_bits(own.layer->weight.grad(), plain.layer->weight.grad())) << i;
  }
}

// Replicas that leave gradients for an optimizer outside of the function.
struct Leaving {
  MirroredStrategy strategy;
  torch::nn::Linear net{nullptr};
  std::optional<torch::optim::SGD> optimizer;

  Leaving(int replicas, ReduceOp gradients) : strategy({.devices = test_devices(replicas)}) {
    torch::manual_seed(3);
    net = strategy.build([] { return torch::nn::Linear(4, 2); }, {.gradients = gradients});
    optimizer.emplace(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  }
  PerReplica<Tensor> pass(const PerReplica<Tensor>& batch) {
    return strategy.run(
        [&](const Tensor& x) {
          const Tensor loss = net->forward(x).square().sum();
          loss.backward();
          return loss.detach();
        },
        batch);
  }
};

TEST(FunctionOnDevices, GradientsThatReplicasLeaveAreReduced) {
  for (const bool zeroes_inside : {false, true})
    for (const ReduceOp gradients : {ReduceOp::sum, ReduceOp::mean})
      for (const int replicas : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << replicas << " replicas, " << (zeroes_inside ? "zero_grad() inside" : ""));
        Leaving plain(replicas, gradients), own(replicas, gradients);
        const auto pass = function([&](const PerReplica<Tensor>& batch) {
          if (zeroes_inside) own.optimizer->zero_grad();
          return own.pass(batch);
        });
        for (int i = 0; i < 8; ++i) {
          const auto batch = plain.strategy.distribute(torch::randn({8, 4}));
          plain.optimizer->zero_grad();
          if (!zeroes_inside) own.optimizer->zero_grad();
          const auto wanted = plain.pass(batch), made = pass(batch);
          for (size_t r = 0; r < made.size(); ++r) EXPECT_TRUE(same_bits(made[r], wanted[r])) << i;
          EXPECT_TRUE(same_bits(own.net->weight.grad(), plain.net->weight.grad())) << i;
          if (i == 6) {
            plain.net->bias.mutable_grad() = plain.net->bias.grad() * 3;
            own.net->bias.mutable_grad() = own.net->bias.grad() * 3;
          }
          plain.optimizer->step();
          own.optimizer->step();
          EXPECT_TRUE(same_bits(own.net->weight, plain.net->weight)) << i;
          EXPECT_TRUE(same_bits(own.net->bias, plain.net->bias)) << i;
        }
        EXPECT_LE(pass.tracing_count(), 3);
      }
}

TEST(FunctionOnDevices, GradientsThatReplicasLeaveAreAddedToThoseThatAreThere) {
  for (const int replicas : {1, 2}) {
    Leaving plain(replicas, ReduceOp::sum), own(replicas, ReduceOp::sum);
    const auto pass = function([&](const PerReplica<Tensor>& batch) { return own.pass(batch); });
    for (int i = 0; i < 9; ++i) {
      const auto batch = plain.strategy.distribute(torch::randn({8, 4}));
      plain.pass(batch);
      pass(batch);
      EXPECT_TRUE(same_bits(own.net->weight.grad(), plain.net->weight.grad())) << i;
      if (i % 3 != 2) continue;
      for (auto* optimizer : {&plain.optimizer, &own.optimizer}) {
        (*optimizer)->step();
        (*optimizer)->zero_grad();
      }
    }
  }
}

// 1e8 and -1e8 come first, and the 1 is not lost between them.
TEST(FunctionOnDevices, AnOnlyReplicaAddsItsGradientsOneAfterTheOther) {
  MirroredStrategy strategy({.devices = test_devices(1)});
  const Tensor w = strategy.build([] { return torch::ones({}, torch::requires_grad()); });
  const Tensor other = strategy.build([] { return torch::ones({}, torch::requires_grad()); });
  const auto add = [&] {
    (w * -1e8).backward();
    w.backward();
  };
  const auto in_replica = function(add);
  const auto with_run = function([&] { strategy.run(add); });
  const std::vector<std::function<void()>> ways = {[&] { strategy.run([&] { in_replica(); }); }, [&] { with_run(); },
                                                   [&] { strategy.run(add); }};
  for (size_t way = 0; way < ways.size(); ++way)
    for (const bool reads : {true, false}) {
      SCOPED_TRACE(testing::Message() << "way " << way << (reads ? ", read in global view" : ""));
      for (int i = 0; i < 6; ++i) {
        strategy.run([&] { (w * 1e8 + other).backward(); });
        if (reads) {
          EXPECT_EQ(w.grad().item<float>(), 1e8);
        }
        ways[way]();
        EXPECT_EQ(w.grad().item<float>(), 1) << i;
        EXPECT_EQ(other.grad().item<float>(), i + 1);
        w.mutable_grad().reset();
      }
      other.mutable_grad().reset();
    }
  EXPECT_LE(in_replica.tracing_count(), 4);
  EXPECT_LE(with_run.tracing_count(), 4);
}

TEST(FunctionOnDevices, AReplicaThatAddsToItsOwnGradientIsRefused) {
  Leaving net(2, ReduceOp::sum);
  const auto pass = function([&](const PerReplica<Tensor>& batch) { return net.pass(batch); }, {.name = "pass"});
  const auto batch = net.strategy.distribute(torch::randn({8, 4}));
  net.pass(batch);
  EXPECT_THAT(what_of([&] { pass(batch); }), HasSubstr("pass: a replica adds to the gradient that it found"));
}

// LibTorch's kernel for inputs that are not contiguous asks for the weights as if it wrote to them.
TEST(FunctionOnDevices, AReplicaKeepsWhatItSharesWhereAnOpOnlyReadsIt) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  const Tensor weight = strategy.build([] { return torch::rand({3}, torch::requires_grad()); });
  const auto replica_step = [&](const Tensor& x) {
    const Tensor y = torch::batch_norm(x.transpose(2, 3), weight, {}, {}, {}, /*training=*/true, 0.1, 1e-5, false);
    return gradients((y * weight.view({3, 1, 1})).square().mean(), std::vector{weight})[0];
  };
  const auto f = [&](const PerReplica<Tensor>& batch) { return strategy.run(replica_step, batch); };
  const auto g = function(f);
  for (int i = 0; i < 4; ++i) {
    const auto batch = strategy.distribute(torch::randn({4, 3, 5, 6}));
    const auto wanted = f(batch), made = g(batch);
    for (size_t r = 0; r < 2; ++r) EXPECT_TRUE(same_bits(made[r], wanted[r])) << i;
  }
  EXPECT_EQ(g.tracing_count(), 2);
}

TEST(FunctionOnDevices, AnErrorInAReplicaIsItsOwnAndTheNextCallWorks) {
  if (test_torch_device().is_cuda()) GTEST_SKIP() << "an index that is out of bounds ends all use of CUDA";
  MirroredStrategy strategy({.devices = test_devices(2)});
  const auto f = function([&](const PerReplica<Tensor>& logits, const PerReplica<Tensor>& labels) {
    return strategy.run([](const Tensor& x, const Tensor& y) { return torch::nll_loss(x, y); }, logits, labels);
  });
  const auto logits = strategy.distribute(torch::randn({4, 3})),
             labels = strategy.distribute(torch::tensor({0, 1, 2, 0}));
  const auto wrong = strategy.distribute(torch::tensor({0, 1, 2, 9}));
  EXPECT_THAT(what_of([&] { f(logits, wrong); }), HasSubstr("out of bounds"));
  for (int i = 0; i < 3; ++i) f(logits, labels);
  EXPECT_THAT(what_of([&] { f(logits, wrong); }), HasSubstr("out of bounds"));
  EXPECT_TRUE(same_bits(f(logits, labels)[1], torch::nll_loss(logits[1], labels[1])));
}

TEST(Repeat, FetchesAllElementsBeforeTheFirstStep) {
  const auto dataset = data::from_tensor_slices(torch::arange(5.));
  auto iterator = dataset.begin();
  double sum = 0;
  const auto step = [&](const Tensor& x) { return sum += x.item<double>(); };
  EXPECT_EQ(repeat(3, step, iterator), 3);
  EXPECT_THAT(what_of([&] { repeat(3, step, iterator); }), HasSubstr("ended after 2 of 3 elements"));
  EXPECT_EQ(sum, 3);
  EXPECT_THAT(what_of([&] { repeat(0, step, iterator); }), HasSubstr("at least one"));
}

}  // namespace
}  // namespace tutti
