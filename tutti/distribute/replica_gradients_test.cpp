// How gradients that replicas left become one: sums, means, sparse ones, and what global view had before.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/embedding.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <latch>
#include <thread>

#include "tests/support/dataset_values.h"
#include "tests/support/error_of.h"
#include "tests/support/three_replicas.h"
#include "tutti/collectives/communications.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MeanGradients : public ThreeReplicas {
 protected:
  Tensor make(at::ScalarType dtype, int64_t size) {
    return strategy.build([&] { return at::ones({size}, dtype).set_requires_grad(true); },
                          {.gradients = ReduceOp::mean});
  }
};

TEST_F(MeanGradients, StayAsTheyAreWhereRunsAddZero) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const Tensor w = make(dtype, 1000), factors = at::randn({1000}).mul(20'000).clamp(-60'000, 60'000).to(dtype);
    strategy.run([&] { (w * moved(factors)).sum().backward(); });
    const Tensor first = gather(w.grad()).clone();
    for (int run = 0; run < 5; ++run) {
      strategy.run([&] { (w * 0).sum().backward(); });
      EXPECT_TRUE(gather(w.grad()).equal(first)) << dtype;
    }
  }
}

TEST_F(MeanGradients, AreSeenByEveryReplicaThatLooks) {
  const Tensor w = make(at::kFloat, 2);
  strategy.run([&] { (w * (replica() + 1)).sum().backward(); });
  EXPECT_THAT(numbers(gather(w.grad())), Each(2));
  strategy.run([&] {
    EXPECT_THAT(numbers(w.grad()), Each(2));
    (w * (replica() + 1)).sum().backward();
    EXPECT_THAT(numbers(w.grad()), Each(3 + replica()));
  });
  EXPECT_THAT(numbers(gather(w.grad())), Each(4));
}

TEST_F(MeanGradients, AreClearedByReplicasThatClearThem) {
  const Tensor w = make(at::kFloat, 2);
  strategy.run([&] { w.sum().backward(); });
  EXPECT_THAT(numbers(gather(w.grad())), Each(1));
  strategy.run([&] { w.mutable_grad().zero_(); });
  EXPECT_THAT(numbers(gather(w.grad())), Each(0));
  strategy.run([&] { (w * 4).sum().backward(); });
  EXPECT_THAT(numbers(gather(w.grad())), Each(4));
  strategy.run([&] { w.mutable_grad().reset(); });
  EXPECT_FALSE(w.grad().defined());
}

class ReplicaGradients : public ThreeReplicas {
 protected:
  ReplicaGradients() : w(strategy.build([] { return at::ones({2}).set_requires_grad(true); })) {}

  const Tensor w;
};

TEST_F(ReplicaGradients, OfAllVariablesAreThereForEveryThreadThatAsks) {
  std::vector<Tensor> variables;
  strategy.build([&] {
    for (int i = 0; i < 8; ++i) variables.push_back(at::ones({1 << 18}).set_requires_grad(true));
  });
  for (int step = 0; step < 5; ++step) {
    for (const Tensor& variable : variables) variable.mutable_grad().reset();
    strategy.run([&] {
      for (const Tensor& variable : variables) variable.sum().backward();
    });
    std::latch all_here(4);
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        all_here.arrive_and_wait();
        const Tensor gradient = variables[2 * i].grad();
        ASSERT_TRUE(gradient.defined());
        EXPECT_EQ(gather(gradient)[0].item<float>(), 3);
      });
  }
}

// On what global view has read too: 1e8 and -1e8 come first, and the 1 is not lost between them.
TEST(OneReplica, AddsItsGradientsOneAfterTheOther) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(1)});
  const Tensor w = strategy.build([] { return at::ones({}).set_requires_grad(true); });
  strategy.run([&] { (w * 1e8).backward(); });
  EXPECT_THAT(numbers(gather(w.grad())), ElementsAre(1e8));
  strategy.run([&] {
    (w * -1e8).backward();
    w.backward();
  });
  EXPECT_THAT(numbers(gather(w.grad())), ElementsAre(1));
}

// LibTorch's optimizer reads them in global view, where replicas meet.
TEST(OneReplica, AddsItsGradientsOneAfterTheOtherBehindAStepToo) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(1)});
  const auto [w, optimizer] = strategy.build([] {
    const Tensor made = at::ones({}).set_requires_grad(true);
    return std::pair(made, Optimizer(torch::optim::SGD({made}, 0)));
  });
  strategy.run([&, &w = w, &optimizer = optimizer] {
    const Tensor loss = w * 1;
    (w * 1e8).backward();
    optimizer.step();
    (w * -1e8).backward();
    loss.backward();
    EXPECT_EQ(w.grad().item<float>(), 1);
  });
  EXPECT_THAT(numbers(gather(w.grad())), ElementsAre(1));
}

TEST(OneReplica, LeavesAGradientWithAGraphToGlobalView) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(1)});
  const Tensor w = strategy.build([] { return at::full({}, 3.).set_requires_grad(true); });
  const Tensor in_global_view = torch::autograd::grad({w * w}, {w}, {}, {}, /*create_graph=*/true)[0];
  w.mutable_grad() = in_global_view;
  strategy.run([&] { w.mul(2).detach(); });
  EXPECT_TRUE(w.grad().is_same(in_global_view));
  w.mutable_grad().reset();  // its graph has the variable, which would keep it
}

TEST_F(ReplicaGradients, ThatAreSparseStaySparse) {
  auto embedding = strategy.build([] { return torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 2).sparse(true)); });
  const Tensor before = gather(embedding->weight.detach()).clone();
  strategy.run([&] { embedding(moved(at::tensor({1, 2 + replica()}))).sum().backward(); });
  const Tensor gradient = gather(embedding->weight.grad());
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_THAT(numbers(gradient.to_dense().select(1, 0)), ElementsAre(0, 3, 1, 1, 1, 0, 0, 0, 0, 0));
  torch::optim::SGD(embedding->parameters(), 1).step();
  EXPECT_TRUE((before - gather(embedding->weight.detach())).allclose(gradient.to_dense()));
}

// By Adagrad, which asks of each gradient whether it is sparse: the numbers of one device.
class SparseGradients : public ThreeReplicas {
 protected:
  static torch::nn::Embedding table() { return torch::nn::Embedding(torch::nn::EmbeddingOptions(7, 3).sparse(true)); }
  torch::nn::Embedding built() {
    auto embedding = strategy.build(table);
    const torch::NoGradGuard no_grad;
    embedding->weight.copy_(alone->weight);
    return embedding;
  }
  static torch::optim::Adagrad adagrad(torch::nn::Embedding& of) {
    return torch::optim::Adagrad(of->parameters(), 0.1);
  }
  static Tensor loss(torch::nn::Embedding& embedding, const Tensor& of) { return embedding(of).pow(2).sum(); }

  const Tensor ids = at::tensor({1, 2, 2, 5, 0, 1}, at::kLong);
  torch::nn::Embedding alone = table();
};

TEST_F(SparseGradients, AreTakenByAdagradInReplicas) {
  auto mirrored = built();
  auto of_one = adagrad(alone);
  Optimizer of_replicas(adagrad(mirrored));
  for (int step = 0; step < 3; ++step) {
    of_one.zero_grad();
    loss(alone, ids).backward();
    of_one.step();
    strategy.run([&] {
      of_replicas.zero_grad();
      loss(mirrored, moved(ids.slice(0, 2 * replica(), 2 * replica() + 2))).backward();
      of_replicas.step();
    });
  }
  EXPECT_TRUE(gather(mirrored->weight).cpu().allclose(alone->weight, 1e-6));
}

TEST_F(SparseGradients, AreTakenByAdagradAndByNoAdamInGlobalView) {
  auto in_global_view = built();
  auto of_one = adagrad(alone), of_view = adagrad(in_global_view);
  for (int step = 0; step < 3; ++step) {
    of_one.zero_grad();
    loss(alone, ids).backward();
    of_one.step();
    of_view.zero_grad();
    loss(in_global_view, ids).backward();
    of_view.step();
  }
  EXPECT_TRUE(gather(in_global_view->weight).cpu().equal(alone->weight));
  EXPECT_THAT(error_of([&] { torch::optim::Adam(in_global_view->parameters()).step(); }),
              HasSubstr("make the table without sparse(true)"));
}

// LibTorch adds no dense tensor to a sparse one.
TEST_F(ReplicaGradients, OfWhichOneIsSparseAreAddedInAnyOrder) {
  for (const int64_t dense : {0, 1, 2}) {
    auto embedding =
        strategy.build([] { return torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true)); });
    const auto backward = [&] {
      if (replica() == dense)
        embedding->weight.sum().backward();
      else
        embedding(moved(at::tensor({1}))).sum().backward();
    };
    const auto sums = [&] { return numbers(gather(embedding->weight.grad()).to_dense().select(1, 0)); };
    strategy.run(backward);
    EXPECT_THAT(sums(), ElementsAre(1, 3, 1, 1)) << dense;
    strategy.run(backward);  // to what global view has
    EXPECT_THAT(sums(), ElementsAre(2, 6, 2, 2)) << dense;
    embedding->weight.mutable_grad().reset();
    strategy.run([&] { embedding(moved(at::tensor({1}))).sum().backward(); });
    EXPECT_THAT(sums(), ElementsAre(0, 3, 0, 0)) << dense;
    strategy.run([&] { embedding->weight.sum().backward(); });
    EXPECT_THAT(sums(), ElementsAre(3, 6, 3, 3)) << dense;
    strategy.run([&] { embedding(moved(at::tensor({1}))).sum().backward(); });
    EXPECT_THAT(sums(), ElementsAre(3, 9, 3, 3)) << dense;
  }
}

// Strategies on the same devices lie on one mesh.
TEST_F(ReplicaGradients, OfOneStrategyAreUsedWhileReplicasOfAnotherCompute) {
  const auto train = [](Strategy& own) {
    const Tensor v = own.build([] { return at::zeros({64}).set_requires_grad(true); });
    torch::optim::SGD sgd({v}, 1);
    for (int step = 1; step <= 200; ++step) {
      v.mutable_grad().reset();
      const auto held = own.run([&] {
        v.sum().backward();
        return local(v);
      });
      sgd.step();
      sgd.step();
      ASSERT_EQ(held[2][0].item<float>(), -6 * step);
    }
  };
  MirroredStrategy other({.devices = configure_logical_cpus(3)});
  std::jthread thread([&] { train(other); });
  train(strategy);
}

class ReplicaBuffers : public ThreeReplicas {
 protected:
  ReplicaBuffers() : buffer(strategy.build([] { return at::zeros({1 << 16}); })) {}

  const Tensor buffer;
  float last() { return gather(buffer)[-1].item<float>(); }
};

TEST_F(ReplicaBuffers, AreReadWholeByEveryThreadThatReads) {
  for (int step = 1; step <= 20; ++step) {
    strategy.run([&] { buffer.fill_(step + replica()); });
    std::latch all_here(3);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        all_here.arrive_and_wait();
        EXPECT_EQ(last(), step + 1);
      });
  }
}

TEST_F(ReplicaBuffers, ReadWhileReplicasComputeAreAsBefore) {
  strategy.run([&] { buffer.add_(1); });
  EXPECT_EQ(last(), 1);
  std::latch written(3), read(1);
  std::jthread reader([&] {
    written.wait();
    EXPECT_EQ(last(), 1);
    EXPECT_THAT(error_of([&] { buffer.add_(1); }), AllOf(HasSubstr("failed_precondition"), HasSubstr("merge_call")));
    read.count_down();
  });
  strategy.run([&] {
    buffer.add_(1);
    written.arrive_and_wait();
    read.wait();
    buffer.add_(1);
  });
  EXPECT_EQ(last(), 3);
}

TEST_F(ReplicaBuffers, AreReadAsTheyAreWhereReplicasMeet) {
  strategy.run([&] {
    buffer.fill_(replica());
    get_replica_context().merge_call([&](Strategy&) { EXPECT_EQ(last(), 1); });
    buffer.add_(1);
    get_replica_context().merge_call([&](Strategy&) { EXPECT_EQ(last(), 2); });
  });
  EXPECT_EQ(last(), 2);
}

}  // namespace
}  // namespace tutti
