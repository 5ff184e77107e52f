// Recorded functions of several processes, against the same without a recording: see multi_worker_test.cpp.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "tests/processes/of_processes.h"
#include "tests/support/error_of.h"
#include "tests/support/same_bits.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/function/function.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/across_processes.h"
#include "tutti/tensor/gradient_reads.h"
#include "tutti/tensor/random_seed.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

class MultiWorkerRecorded : public OfProcesses {
 protected:
  // A batch of each replica of this process. Each process has a short one at another step, which it records while the
  // others replay theirs.
  PerReplica<Tensor> batch_of(int step) const {
    std::vector<Tensor> own;
    for (int replica = 0; replica < kDevices; ++replica) {
      torch::manual_seed(100 * step + 10 * rank() + replica);
      own.push_back(at::randn({step == 4 + rank() ? 3 : 4, 5}));
    }
    return PerReplica<Tensor>(own);
  }
};

struct TwoLayers {
  torch::nn::Linear first{nullptr}, last{nullptr};
  std::vector<Tensor> parameters;

  explicit TwoLayers(Strategy& strategy) {
    torch::manual_seed(3);
    strategy.build([&] {
      first = torch::nn::Linear(5, 4);
      last = torch::nn::Linear(4, 1);
    });
    parameters = {first->weight, first->bias, last->weight, last->bias};
  }
  Tensor loss(const Tensor& x) { return last(first(x).tanh()).square().mean(); }
};

// Both are trained, in turns.
template <class Train>
void expect_same_bits(TwoLayers& own, TwoLayers& plain, const Train& train_own, const Train& train_plain) {
  for (int step = 0; step < 12; ++step) {
    const Tensor made = train_own(step), wanted = train_plain(step);
    EXPECT_TRUE(same_bits(made, wanted)) << "step " << step;
    for (size_t i = 0; i < own.parameters.size(); ++i)
      EXPECT_TRUE(same_bits(own.parameters[i], plain.parameters[i])) << "step " << step << ", parameter " << i;
  }
}

TEST_F(MultiWorkerRecorded, StepsOfLibTorchsOptimizerGiveTheBitsOfPlainOnes) {
  for (const bool updates_inside : {true, false}) {
    SCOPED_TRACE(updates_inside);
    struct Training {
      Strategy& strategy;
      bool updates_inside;
      TwoLayers net{strategy};
      torch::optim::SGD sgd{net.parameters, torch::optim::SGDOptions(0.1).momentum(0.9)};

      Tensor pass(const PerReplica<Tensor>& batch) {
        if (updates_inside) sgd.zero_grad();
        const auto losses = strategy.run(
            [&](const Tensor& x) {
              const Tensor loss = net.loss(x);
              loss.backward();
              return loss.detach();
            },
            batch);
        const Tensor loss = strategy.reduce(ReduceOp::mean, losses);
        if (updates_inside) sgd.step();
        return loss;
      }
    } own{strategy, updates_inside}, plain{strategy, updates_inside};
    const auto recorded = function([&](const PerReplica<Tensor>& batch) { return own.pass(batch); });
    const auto train = [&](Training& training, const auto& pass) {
      return std::function<Tensor(int)>([&, pass](int step) {
        if (!updates_inside) training.sgd.zero_grad();
        const Tensor loss = pass(batch_of(step));
        if (!updates_inside) training.sgd.step();
        return loss;
      });
    };
    expect_same_bits(own.net, plain.net, train(own, recorded),
                     train(plain, [&](const PerReplica<Tensor>& batch) { return plain.pass(batch); }));
    EXPECT_LE(recorded.tracing_count(), 5);
  }
}

// A run leaves word that gradients may be there, which whoever reads one next settles with all processes: one that
// records, as the batch is a short one, and those that replay meet in the same reductions.
TEST_F(MultiWorkerRecorded, RunsWithoutGradientsBetweenCallsOrBehindTheUpdateChangeNothing) {
  struct Training {
    Strategy& strategy;
    bool in_call;
    TwoLayers net{strategy};
    torch::optim::SGD sgd{net.parameters, torch::optim::SGDOptions(0.1).momentum(0.9)};

    Tensor evaluate(const PerReplica<Tensor>& batch) {
      const auto losses = strategy.run(
          [&](const Tensor& x) {
            const at::NoGradGuard no_grad;
            return net.loss(x);
          },
          batch);
      return strategy.reduce(ReduceOp::mean, losses);
    }
    Tensor step(const PerReplica<Tensor>& batch) {
      sgd.zero_grad(/*set_to_none=*/false);
      strategy.run([&](const Tensor& x) { net.loss(x).backward(); }, batch);
      sgd.step();
      return in_call ? evaluate(batch) : at::ones({});
    }
  };
  for (int kind = 0; kind < 4; ++kind) {
    SCOPED_TRACE(kind);
    const bool in_call = kind % 2 == 1, freezes = kind >= 2;
    Training own{strategy, in_call}, plain{strategy, in_call};
    const auto recorded = function([&](const PerReplica<Tensor>& batch) { return own.step(batch); });
    const auto evaluate = function([&](const PerReplica<Tensor>& batch) { return own.evaluate(batch); });
    const auto train = [&](Training& training, const auto& step, const auto& evaluation) {
      return std::function<Tensor(int)>([&, step, evaluation](int number) {
        if (freezes && (number == 5 || number == 8))
          for (const Tensor& parameter : training.net.first->parameters()) parameter.requires_grad_(number == 8);
        const Tensor loss = !in_call && number % 3 != 2 ? evaluation(batch_of(0)) : at::ones({});
        return loss * step(batch_of(number));
      });
    };
    expect_same_bits(own.net, plain.net, train(own, recorded, evaluate),
                     train(
                         plain, [&](const PerReplica<Tensor>& batch) { return plain.step(batch); },
                         [&](const PerReplica<Tensor>& batch) { return plain.evaluate(batch); }));
    if (!freezes) {
      EXPECT_LE(recorded.tracing_count(), 6);
    }
  }
}

// Whichever replica's thread comes last makes the update, by chance another one in each process. If one of them had not
// seen that gradients are read, it would not reduce before the next call what a run without gradients has left.
TEST_F(MultiWorkerRecorded, GradientsThatAreReadWhereReplicasMeetAreSeenFromTheThreadThatRecords) {
  TwoLayers net{strategy};
  const Optimizer<torch::optim::SGD> sgd{torch::optim::SGD(net.parameters, 0.1)};
  for (int step = 0; step < 5; ++step) {
    const GradientReads seen;
    strategy.run(
        [&](const Tensor& x) {
          sgd.zero_grad();
          net.loss(x).backward();
          sgd.step();
        },
        batch_of(step));
    ASSERT_EQ(seen.reads().size(), 1);
    EXPECT_TRUE(seen.reads()[0].reduces);
  }
}

TEST_F(MultiWorkerRecorded, StepsOfKerassOptimizerGiveTheBitsOfPlainOnes) {
  struct Training {
    Strategy& strategy;
    TwoLayers net{strategy};
    keras::optimizers::Adam adam{{.learning_rate = 0.05, .global_clipnorm = 0.1}};

    Tensor step(const PerReplica<Tensor>& batch) {
      return strategy.reduce(ReduceOp::sum, strategy.run(
                                                [&](const Tensor& x) {
                                                  const Tensor loss = net.loss(x);
                                                  adam.apply_gradients(gradients(loss, net.parameters), net.parameters);
                                                  return loss.detach();
                                                },
                                                batch));
    }
  } own{strategy}, plain{strategy};
  const auto recorded = function([&](const PerReplica<Tensor>& batch) { return own.step(batch); });
  using Train = std::function<Tensor(int)>;
  expect_same_bits(own.net, plain.net, Train([&](int step) { return recorded(batch_of(step)); }),
                   Train([&](int step) { return plain.step(batch_of(step)); }));
  EXPECT_LE(recorded.tracing_count(), 5);
}

// 22 samples in batches of 8.
TEST_F(MultiWorkerRecorded, FitGivesTheBitsOfEagerSteps) {
  using namespace keras;
  const auto trained = [&](bool eagerly) {
    set_random_seed(3);
    const Tensor x = at::randn({22, 5}), y = at::randn({22, 1});
    const Sequential model = strategy.build([] {
      return Sequential({layers::Dense({.units = 6, .use_bias = false}), layers::BatchNormalization(),
                         layers::Dropout({.rate = 0.2}), layers::Dense({.units = 1})});
    });
    model.compile({.optimizer = "adam", .loss = "mse", .run_eagerly = eagerly});
    model.fit(x, y, {.batch_size = 8, .epochs = 4, .verbose = Verbose::silent, .shuffle = false});
    std::vector<Tensor> all = model.get_weights();
    all.push_back(model.predict(x, {.batch_size = 8}));
    return all;
  };
  const auto seen = trained(false), wanted = trained(true);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(same_bits(seen[i], wanted[i])) << i;
}

// One process has another batch, and records what the others replay.
TEST_F(MultiWorkerRecorded, NumbersThatProcessesAgreedOnMayNotChange) {
  for (const SameSums same : {SameSums::all, SameSums::zeros}) {
    const auto f = function([&](const Tensor& x) {
      int64_t count = x.numel();
      sum_numbers(strategy.processes(), {&count, 1}, "count", same);
      return x * count;
    });
    for (int call = 0; call < 3; ++call) EXPECT_TRUE(same_bits(f(at::ones({2})), at::ones({2}) * 2 * size()));
    const bool has_more = rank() == 1;
    const auto call = [&] { f(at::ones({has_more ? 3 : 2})); };
    if (has_more || same == SameSums::zeros)
      EXPECT_NO_THROW(call());
    else
      EXPECT_THAT(error_of(call), HasSubstr(str("count: the processes agree on [", 2 * size() + 1, "], and on [",
                                                2 * size(), "] when this function was recorded")));
  }
}

TEST_F(MultiWorkerRecorded, WhatIsNoSumIsRefusedByName) {
  const auto f = function([&](const PerReplica<Tensor>& batch) { return strategy.gather(batch, 0); });
  EXPECT_THAT(error_of([&] { f(batch_of(0)); }), HasSubstr("the processes do this together, which cannot be recorded"));
}

}  // namespace
}  // namespace tutti
