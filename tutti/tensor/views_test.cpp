// The rules of the views on small tensors, without modules or strategies.
#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sgn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/view_copy.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/support/error_of.h"
#include "tutti/core/error.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/strict_mode.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

class Views : public testing::TestWithParam<bool> {
 protected:
  Mesh mesh_{{{"replica", 3}}, configure_logical_cpus(3), {.merge = GetParam()}};
  std::shared_ptr<GradientGroup> group_ = std::make_shared<GradientGroup>(ReduceOp::sum);

  template <class Make>
  Tensor variable(Make make, bool requires_grad = true) {
    const Scope scope(mesh_, group_);
    return make().set_requires_grad(requires_grad);
  }
  // Calls f(replica) in each replica's view, one after the other.
  template <class F>
  void in_replicas(F f) {
    const ReplicasCompute computing(MeshShape::of(mesh_)->clock);
    for (int replica = 0; replica < 3; ++replica) {
      const ThreadViewGuard view({.replica = replica, .mesh = MeshShape::of(mesh_)});
      f(replica);
    }
  }
  Layout sharded(int rank) { return Layout::batch_sharded(mesh_, "replica", rank); }
};

INSTANTIATE_TEST_SUITE_P(Buffers, Views, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "separate"; });

TEST_P(Views, FactoriesMakeMeshTensorsInAScopeOnly) {
  EXPECT_FALSE(is_mesh_tensor(at::ones({2})));
  const Scope scope(mesh_, group_);
  EXPECT_TRUE(is_mesh_tensor(at::ones({2})));
  EXPECT_TRUE(is_mesh_tensor(at::rand({2})));
  const GlobalViewGuard data_function;
  EXPECT_FALSE(is_mesh_tensor(at::ones({2})));
}

TEST_P(Views, AReplicaSeesAPlainComponent) {
  const Tensor w = variable([] { return at::ones({2, 3}); });
  in_replicas([&](int) {
    const Tensor y = w + 1;
    EXPECT_FALSE(is_mesh_tensor(y));
    EXPECT_TRUE(y.requires_grad());
  });
}

TEST_P(Views, GradientsAreTheReplicasOwnAndTheirSumInGlobalView) {
  const Tensor w = variable([] { return at::ones({2}); });
  in_replicas([&](int replica) {
    (w * (replica + 1)).sum().backward();
    EXPECT_TRUE(at::equal(w.grad(), at::full({2}, replica + 1.0)));
  });
  EXPECT_TRUE(at::equal(gather(w.grad()), at::full({2}, 6.0)));
}

TEST_P(Views, AGradientThatOneReplicaLacksCountsAsZero) {
  const Tensor w = variable([] { return at::ones({2}); });
  in_replicas([&](int replica) {
    if (replica == 1) (w * 5).sum().backward();
  });
  EXPECT_TRUE(at::equal(gather(w.grad()), at::full({2}, 5.0)));
}

TEST_P(Views, GradientsAccumulateOverRuns) {
  const Tensor w = variable([] { return at::ones({2}); });
  const auto step = [&](int) { w.sum().backward(); };
  in_replicas(step);
  EXPECT_TRUE(at::equal(gather(w.grad()), at::full({2}, 3.0)));
  in_replicas(step);
  EXPECT_TRUE(at::equal(gather(w.grad()), at::full({2}, 6.0)));
}

TEST_P(Views, ZeroingGradientsInTheReplicasClearsTheGlobalOne) {
  const Tensor w = variable([] { return at::ones({2}); });
  in_replicas([&](int) { w.sum().backward(); });
  EXPECT_TRUE(w.grad().defined());
  in_replicas([&](int) {
    w.mutable_grad().reset();
    (w * 2).sum().backward();
  });
  EXPECT_TRUE(at::equal(gather(w.grad()), at::full({2}, 6.0)));
}

TEST_P(Views, MeanGradientsAreDividedOnceAlsoWhenTheyAccumulate) {
  group_ = std::make_shared<GradientGroup>(ReduceOp::mean);
  const Tensor w = variable([] { return at::ones({2}); });
  const auto step = [&](int replica) { (w * (replica + 1)).sum().backward(); };
  in_replicas(step);
  EXPECT_TRUE(at::allclose(gather(w.grad()), at::full({2}, 2.0)));
  in_replicas(step);
  EXPECT_TRUE(at::allclose(gather(w.grad()), at::full({2}, 4.0)));
}

TEST_P(Views, GlobalAndReplicaGradientsAdd) {
  const Tensor w = variable([] { return at::ones({2}); });
  (w * 10).sum().backward();
  in_replicas([&](int) { w.sum().backward(); });
  EXPECT_TRUE(at::equal(gather(w.grad()), at::full({2}, 13.0)));
}

TEST_P(Views, HooksAndFreezingFollowTheVariable) {
  const Tensor w = variable([] { return at::ones({2}); });
  int calls = 0;
  w.register_hook([&](const Tensor& gradient) {
    ++calls;
    return gradient * 2;
  });
  in_replicas([&](int) { w.sum().backward(); });
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(at::equal(gather(w.grad()), at::full({2}, 6.0)));
  w.set_requires_grad(false);
  in_replicas([&](int) { EXPECT_FALSE((w + 1).requires_grad()); });
}

TEST_P(Views, WhatAReplicaWritesIsItsOwn) {
  const Tensor buffer = variable([] { return at::zeros({4}); }, false);
  in_replicas([&](int replica) { buffer.view({2, 2}).add_(replica); });  // also through a view
  in_replicas([&](int replica) { EXPECT_TRUE(at::equal(buffer + 0, at::full({4}, double(replica)))); });
}

TEST_P(Views, WrittenBuffersAreAveragedIntegersAreTheFirstReplicas) {
  const Tensor floats = variable([] { return at::zeros({2}); }, false);
  const Tensor integers = variable([] { return at::zeros({2}, at::kLong); }, false);
  in_replicas([&](int replica) {
    floats.fill_(replica * 3);
    integers.fill_(replica + 5);
  });
  EXPECT_TRUE(at::equal(gather(floats), at::full({2}, 3.0)));
  EXPECT_TRUE(at::equal(gather(integers), at::full({2}, 5, at::kLong)));
  in_replicas([&](int replica) { EXPECT_TRUE(at::equal(floats + 0, at::full({2}, replica * 3.0))); });
}

TEST_P(Views, ValuesThatAgreeAreNotAveraged) {
  const Tensor value = at::rand({1000});
  const Tensor buffer = variable([] { return at::zeros({1000}); }, false);
  in_replicas([&](int) { buffer.copy_(value); });
  EXPECT_TRUE(at::equal(gather(buffer), value));  // the mean of three equal floats is another float for one in five
}

TEST_P(Views, AGlobalWriteReachesEveryReplica) {
  const Tensor buffer = variable([] { return at::zeros({2}); }, false);
  in_replicas([&](int replica) { buffer.fill_(replica); });
  buffer.add_(10);
  in_replicas([&](int) { EXPECT_TRUE(at::equal(buffer + 0, at::full({2}, 11.0))); });
  buffer.detach().mul_(2);  // also through an alias
  in_replicas([&](int) { EXPECT_TRUE(at::equal(buffer + 0, at::full({2}, 22.0))); });
}

TEST_P(Views, AGlobalWriteDoesNotReachWhatAReplicaTookOut) {
  const Tensor w = variable([] { return at::zeros({2}); }, false);
  Tensor kept;
  in_replicas([&](int replica) {
    if (replica == 0) kept = w.view({2, 1});
  });
  w.add_(1);
  EXPECT_TRUE(at::equal(kept, at::zeros({2, 1})));
}

TEST_P(Views, AStaleGraphIsLibTorchsOwnError) {
  const Tensor w = variable([] { return at::ones({2}); });
  Tensor loss;
  in_replicas([&](int replica) {
    if (replica == 0) loss = (w * w).sum();
  });
  {
    const at::NoGradGuard no_grad;
    w.sub_(0.5);
  }
  const ThreadViewGuard view({.replica = 0, .mesh = MeshShape::of(mesh_)});
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST_P(Views, AGraphOfGlobalViewKnowsWhatReplicasWrite) {
  const Tensor w = variable([] { return at::full({2}, 3.0); });
  const Tensor y = (w * w).sum();
  in_replicas([&](int) {
    const at::NoGradGuard no_grad;
    w.mul_(10);
  });
  EXPECT_THROW(y.backward(), c10::Error);
}

TEST_P(Views, AnOutArgumentOfNoElementsIsRefusedWhereItWouldGrow) {
  const Tensor w = variable([] { return at::zeros({0}); }, false);
  in_replicas([&](int) {
    Tensor out = w;
    EXPECT_EQ(code_of([&] { at::abs_out(out, at::ones({1})); }), ErrorCode::failed_precondition);
    EXPECT_EQ(at::abs_out(out, at::ones({0})).numel(), 0);
  });
  EXPECT_EQ(w.numel(), 0);
}

TEST_P(Views, AGradientOfNothingIsZero) {
  const Tensor w = variable([] { return at::full({2}, 3.0); });
  in_replicas([&](int) { at::sgn(w).sum().backward(); });
  EXPECT_TRUE(at::equal(gather(w.grad()), at::zeros({2})));
}

TEST_P(Views, AGlobalWriteCopiesNothing) {
  const Tensor w = variable([] { return at::ones({1 << 16}); }, false);
  const void* before = local(w).const_data_ptr();
  for (int step = 0; step < 3; ++step) {
    in_replicas([&](int) { (w + 1).sum(); });
    w.add_(1);
  }
  EXPECT_EQ(local(w).const_data_ptr(), before);
}

TEST_P(Views, AValueOfGlobalViewThatNeedsAGradientIsRefusedInAReplica) {
  const Tensor w = variable([] { return at::ones({2}); });
  const Tensor y = w * 2;
  in_replicas([&](int) { EXPECT_EQ(code_of([&] { (y + 1).sum(); }), ErrorCode::failed_precondition); });
  const Tensor detached = y.detach();
  in_replicas([&](int) { EXPECT_EQ((detached + 1).sum().item<double>(), 6); });
}

TEST_P(Views, PlainOperandsCountAsReplicated) {
  const Tensor x = distribute_tensor(at::arange(8, at::kDouble), sharded(1));
  EXPECT_TRUE(at::equal(gather(x + at::ones({8}, at::kDouble)), at::arange(1, 9, at::kDouble)));
  const StrictMode strict;
  EXPECT_EQ(code_of([&] { x + at::ones({8}, at::kDouble); }), ErrorCode::failed_precondition);
}

TEST_P(Views, WritingMeshValuesIntoAPlainTensorIsRefused) {
  const Tensor x = distribute_tensor(at::ones({4}), sharded(1));
  Tensor plain = at::zeros({4});
  EXPECT_EQ(code_of([&] { plain.add_(x); }), ErrorCode::invalid_argument);
  plain.copy_(x);
  EXPECT_TRUE(at::equal(plain, at::ones({4})));
}

TEST_P(Views, OperandsOfTwoMeshesAreRefused) {
  const Mesh other({{"replica", 2}}, configure_logical_cpus(2), {.merge = GetParam()});
  const Tensor a = distribute_tensor(at::ones({4}), sharded(1));
  const Tensor b = distribute_tensor(at::ones({4}), Layout::replicated(other, 1));
  EXPECT_EQ(code_of([&] { a + b; }), ErrorCode::invalid_argument);
}

TEST_P(Views, StrictModeRefusesToGather) {
  const Tensor x = distribute_tensor(at::arange(6, at::kDouble).view({3, 2}), sharded(2));
  EXPECT_TRUE(at::equal(gather(x.renorm(2, 0, 1)), gather(x).renorm(2, 0, 1)));
  const StrictMode strict;
  EXPECT_EQ(code_of([&] { x.renorm(2, 0, 1); }), ErrorCode::failed_precondition);
}

TEST_P(Views, CopiesOfViewsAsAnotherTypeStaySharded) {
  const Tensor whole = at::arange(12, at::kFloat).view({3, 4});
  const Tensor x = distribute_tensor(whole, sharded(2));
  const Tensor copy = at::view_copy(x, at::kHalf);
  EXPECT_EQ(layout_of(copy), sharded(2));
  EXPECT_TRUE(at::equal(gather(copy).view(at::kInt), whole.view(at::kInt)));
}

// LibTorch converts to the dtype by way of the tensor's own device, whose name alone would ask for a plain tensor.
TEST_P(Views, SoftmaxIntoADtypeStaysSharded) {
  const Tensor whole = at::arange(6, at::kFloat).view({3, 2});
  const Tensor x = distribute_tensor(whole, sharded(2));
  const auto stays = [&](const Tensor& result, const Tensor& expected) {
    EXPECT_EQ(layout_of(result), sharded(2));
    EXPECT_TRUE(at::equal(gather(result), expected));
  };
  stays(at::log_softmax(x, 1, at::kFloat), at::log_softmax(whole, 1, at::kFloat));
  stays(at::log_softmax(x, 1, at::kDouble), at::log_softmax(whole, 1, at::kDouble));
  stays(at::softmax(x, 1, at::kDouble), at::softmax(whole, 1, at::kDouble));
}

TEST_P(Views, RandomNumbersDoNotDependOnTheLayout) {
  at::manual_seed(3);
  const Tensor expected = at::empty({5, 4}).normal_();
  const Tensor x = distribute_tensor(at::zeros({5, 4}), sharded(2));
  at::manual_seed(3);
  x.normal_();
  EXPECT_TRUE(at::equal(gather(x), expected));
}

TEST_P(Views, ReplicasDrawFromTheirOwnGenerators) {
  at::manual_seed(1);
  const Tensor untouched = at::rand({4});
  at::manual_seed(1);
  std::vector<Tensor> drawn;
  for (int replica = 0; replica < 2; ++replica) {
    at::Generator generator = make_replica_generator(9, replica, at::kCPU);
    const ThreadViewGuard view({.replica = replica, .generator = &generator});
    drawn.push_back(at::rand({4}));
  }
  EXPECT_FALSE(at::equal(drawn[0], drawn[1]));
  EXPECT_TRUE(at::equal(at::rand({4}), untouched));
}

TEST_P(Views, ShapesThatDoNotDivideAreCutWithShorterLastPieces) {
  const Tensor x = distribute_tensor(at::arange(4, at::kDouble), sharded(1));  // pieces of 2, 2 and 0
  EXPECT_TRUE(at::equal(gather(x * 2), at::arange(4, at::kDouble) * 2));
  EXPECT_EQ(x.sum().item<double>(), 6);
  EXPECT_EQ(x.mean().item<double>(), 1.5);
  std::vector<int64_t> sizes;
  in_replicas([&](int) { sizes.push_back(local(x).size(0)); });
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 0}));
}

TEST_P(Views, DistributedValuesDoNotAliasThePlainOne) {
  const Tensor plain = at::zeros({6});
  const Tensor x = distribute_tensor(plain, sharded(1));
  x.add_(1);
  EXPECT_TRUE(at::equal(plain, at::zeros({6})));
}

TEST_P(Views, WritesThroughAViewAreSeenOrRefusedNeverLost) {
  const Tensor x = distribute_tensor(at::zeros({6, 2}), sharded(2));
  Tensor expected = at::zeros({6, 2});
  expected.select(0, 1).fill_(7);
  try {
    x.select(0, 1).fill_(7);
    EXPECT_TRUE(at::equal(gather(x), expected));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::failed_precondition);
    EXPECT_FALSE(GetParam()) << "merged buffers have real views";
  }
  x.t().add_(1);
  EXPECT_EQ(gather(x).sum().item<double>(), gather(x.t()).sum().item<double>());
}

TEST_P(Views, TensorsOutliveTheirScopeAndGroup) {
  const Tensor w = variable([] { return at::ones({2}); });
  group_.reset();
  in_replicas([&](int) { w.sum().backward(); });
  EXPECT_TRUE(at::equal(gather(w.grad()), at::full({2}, 3.0)));
}

TEST_P(Views, AnotherThreadHasGlobalView) {
  const Tensor w = variable([] { return at::ones({2}); });
  const ThreadViewGuard view({.replica = 1, .mesh = MeshShape::of(mesh_)});
  std::thread([&] { EXPECT_TRUE(is_mesh_tensor(w + 1)); }).join();
}

}  // namespace
}  // namespace tutti
