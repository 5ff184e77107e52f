// What replicas see of tensors that share a variable's memory, and of leaves wherever they were made.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/convert_parameters.h>
#include <torch/optim/sgd.h>

#include <fstream>
#include <latch>

#include "tests/support/dataset_values.h"
#include "tests/support/three_replicas.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/distribute/variable.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Aliases : public ThreeReplicas {
 protected:
  const Tensor w = strategy.build([] { return at::full({2}, 3.0).set_requires_grad(true); });

  void global_add(double number) {
    const at::NoGradGuard no_grad;
    w.add_(number);
  }
  template <class F>
  auto of_replicas(const F& f) {
    return strategy.run([&] { return numbers(f())[0]; }).values();
  }
};

class OpenScope : public ThreeReplicas {};
class Leaves : public Aliases {};
class MovedData : public Aliases {};

TEST_F(Aliases, OfAVariableAreConstantsInAReplica) {
  const Tensor anchor = w.detach(), data = w.data();
  const auto gradient = [&] {
    w.mutable_grad().reset();
    (w * 2 - anchor * 2 + w * data).sum().backward();
    return w.grad();
  };
  for (int run = 0; run < 3; ++run) EXPECT_THAT(of_replicas(gradient), Each(5)) << "run " << run;
}

TEST_F(Aliases, StayWithAVariableThatIsTurnedInPlace) {
  const Tensor matrix = strategy.build([] { return at::ones({2, 3}).set_requires_grad(true); });
  const Tensor alias = matrix.detach();
  const auto difference = [&] { return alias.sum() - matrix.detach().sum() + matrix.size(0); };
  EXPECT_THAT(of_replicas(difference), Each(2));
  {
    const at::NoGradGuard no_grad;
    matrix.t_();
    matrix.add_(1);
  }
  EXPECT_THAT(of_replicas(difference), Each(3));
  strategy.run([&] {
    const at::NoGradGuard no_grad;
    matrix.fill_(7);
  });
  EXPECT_EQ(alias.sum().item<float>(), 42);
  EXPECT_EQ(alias.size(0), 2);
  strategy.run([&] { (matrix * alias.t()).sum().backward(); });
  EXPECT_THAT(matrix.grad().sizes(), ElementsAre(3, 2));
  EXPECT_EQ(matrix.grad().sum().item<float>(), 3 * 42);
}

TEST_F(Aliases, TakenInAReplicaAreThoseOfItsOwnComponent) {
  const auto gradient = [&] {
    (w * w.data() + w.detach()).sum().backward();
    return w.grad();
  };
  EXPECT_THAT(of_replicas(gradient), Each(3));
  strategy.run([&] { w.data().mul_(replica() + 1); });
  EXPECT_THAT(of_replicas([&] { return w; }), ElementsAre(3, 6, 9));
  EXPECT_THAT(numbers(gather(w.detach())), Each(6));
}

TEST_F(Aliases, MadeWithoutAGraphLeaveTheGradientAlone) {
  Tensor view;
  {
    const at::NoGradGuard no_grad;
    view = w.view_as(w);
  }
  const auto gradient = [&] {
    const Tensor y = w * 3, z = view * 2;
    (y + z).sum().backward();
    return w.grad();
  };
  EXPECT_THAT(of_replicas(gradient), Each(3));
}

TEST_F(Aliases, MadeInTheScopeFollowTheVariable) {
  const auto [v, anchor, row] = strategy.build([] {
    const Tensor v = at::ones({2, 2}).set_requires_grad(true);
    return std::tuple(v, v.detach(), v.detach()[1]);
  });
  const auto sums = [&, &v = v, &anchor = anchor, &row = row] {
    return strategy.run([&] { return numbers(at::full({1}, (v + anchor + row).detach().sum().item<double>()))[0]; })
        .values();
  };
  EXPECT_THAT(sums(), Each(12));
  {
    const at::NoGradGuard no_grad;
    v.add_(5);
  }
  EXPECT_THAT(sums(), Each(72));
  row.sub_(6);  // v is now 6 6 0 0
  EXPECT_THAT(numbers(gather(v.detach())), ElementsAre(6, 6, 0, 0));
  EXPECT_THAT(sums(), Each(24));
}

TEST_F(Aliases, OfATemporaryShareItsMemory) {
  const auto [a, b] = strategy.build([] {
    const Tensor temporary = at::zeros({4});
    return std::pair(temporary.detach(), temporary.view({2, 2}));
  });
  EXPECT_THAT(of_replicas([&, &a = a] { return a + 0; }), Each(0));
  b.add_(7);
  EXPECT_THAT(of_replicas([&, &a = a] { return a + 0; }), Each(7));
  strategy.run([&, &b = b] { b.mul_(replica()); });
  EXPECT_THAT(numbers(gather(a)), Each(7));
}

TEST_F(Aliases, GraphsOfGlobalViewMustNotUseWhatReplicasWrote) {
  const Tensor buffer = strategy.build([] { return at::full({2}, 3.0); });
  const std::vector<std::function<void()>> writes{[&] { w.mul_(10); },
                                                  [&] {
                                                    w.view({2, 1}).mul_(10);
                                                  },
                                                  [&] { w[0].mul_(10); },
                                                  [&] { local(w).mul_(10); },
                                                  [&] { w.detach().mul_(10); },
                                                  [&] { local(buffer).mul_(10); },
                                                  [&] {
                                                    buffer.view({2, 1}).mul_(10);
                                                  }};
  for (size_t i = 0; i < writes.size(); ++i) {
    const Tensor y = (w * w * buffer).sum(), steady = (w * w * buffer).sum();
    strategy.run([&] { (w * buffer).sum(); });  // which writes nothing
    EXPECT_NO_THROW(steady.backward()) << i;
    strategy.run([&] {
      const at::NoGradGuard no_grad;
      writes[i]();
    });
    EXPECT_THROW(y.backward(), c10::Error) << i;
  }
}

TEST_F(Aliases, GraphsOfAReplicaMustNotUseWhatAnAliasWrote) {
  const auto write_between = [&] {
    const Tensor y = (w * w).sum();
    w.detach().add_(1);
    y.backward();
  };
  EXPECT_THROW(strategy.run(write_between), c10::Error);
}

TEST_F(OpenScope, ReplicasTrainWhatWasMadeInIt) {
  const auto scope = strategy.scope();
  torch::nn::Linear linear(2, 1);
  torch::optim::SGD sgd(linear->parameters(), 0.1);
  const Tensor before = gather(linear->weight.detach()).clone();
  const auto step = [&] { linear(at::ones({4, 2})).sum().backward(); };
  strategy.run(step);
  EXPECT_THAT(numbers(gather(linear->weight.grad())), Each(12));
  sgd.step();
  EXPECT_THAT(numbers(before - gather(linear->weight.detach())), Each(::testing::DoubleNear(1.2, 1e-5)));
  sgd.zero_grad();
  EXPECT_FALSE(linear->weight.grad().defined());
  Optimizer inside(torch::optim::SGD(linear->parameters(), 0.1));
  strategy.run([&] {
    inside.zero_grad();
    step();
    inside.step();
  });
  EXPECT_THAT(numbers(before - gather(linear->weight.detach())), Each(::testing::DoubleNear(2.4, 1e-5)));
}

TEST_F(OpenScope, GivesItsReductionToWhatOpsMadeInIt) {
  const auto scope = strategy.scope({.gradients = ReduceOp::mean});
  const Tensor scaled = (at::ones({4}) * 0.5).set_requires_grad(true);
  const Tensor view = at::ones({4}).view({2, 2}).set_requires_grad(true);
  strategy.run([&] { (scaled.sum() * replica() + view.sum() * (replica() + 1)).backward(); });
  EXPECT_THAT(numbers(gather(scaled.grad())), Each(1));
  EXPECT_THAT(numbers(gather(view.grad())), Each(2));
}

TEST_F(OpenScope, KeepsNothingOfTensorsThatAreGone) {
  const auto megabytes = [] {
    std::ifstream file("/proc/self/statm");
    int64_t total, resident;
    file >> total >> resident;
    return resident * 4096 >> 20;
  };
  const auto scope = strategy.scope();
  const Tensor ones = at::ones({1 << 16});
  const auto work = [&] {
    for (int i = 0; i < 2000; ++i) ones + 1;
  };
  work();
  const int64_t before = megabytes();
  work();
  EXPECT_LT(megabytes() - before, 300);  // of 500 MB that came and went
}

TEST_F(Leaves, MadeOutsideOfAScopeHaveGradients) {
  const Tensor delta = at::zeros_like(w).detach().set_requires_grad(true);
  const Tensor view = at::zeros_like(w).view({2, 1}).set_requires_grad(true);
  const Tensor placed = distribute_tensor(at::ones({2}, at::kDouble), layout_of(w)).set_requires_grad(true);
  const auto gradient = [&] {
    ((w.detach() + delta) * 2 + placed * 3 + view.view({2}) * 4).sum().backward();
    return delta.grad();
  };
  EXPECT_THAT(of_replicas(gradient), Each(2));
  EXPECT_THAT(numbers(gather(delta.grad())), Each(6));
  EXPECT_THAT(numbers(gather(placed.grad())), Each(9));
  EXPECT_THAT(numbers(gather(view.grad())), Each(12));
  EXPECT_FALSE(w.grad().defined());
}

TEST_F(Leaves, ThatShareMemoryHaveGradientsOfTheirOwn) {
  const Tensor other = w.detach().set_requires_grad(true);
  strategy.run([&] { (w * 2 + other * 5).sum().backward(); });
  EXPECT_THAT(numbers(gather(w.grad())), Each(6));
  EXPECT_THAT(numbers(gather(other.grad())), Each(15));
  global_add(1);
  EXPECT_THAT(of_replicas([&] { return other.detach(); }), Each(4));
}

TEST_F(Leaves, KeepWhatGlobalViewAccumulatedBeforeReplicasSawThem) {
  const Tensor delta = at::zeros_like(w).detach().set_requires_grad(true);
  (delta * 10).sum().backward();
  strategy.run([&] { delta.sum().backward(); });
  EXPECT_THAT(numbers(gather(delta.grad())), Each(13));
}

TEST_F(Leaves, AreMadeForTrainingAlsoWhereTheFirstRunIsInInferenceMode) {
  auto net = strategy.build([] { return torch::nn::Linear(2, 1); });
  {
    const c10::InferenceMode inference;
    strategy.run([&] { net(at::ones({1, 2})); });
  }
  strategy.run([&] { net(at::ones({1, 2})).square().sum().backward(); });
  EXPECT_TRUE(net->weight.grad().defined());
  EXPECT_TRUE(net->bias.grad().defined());
}

TEST_F(Leaves, TakeHooksOfAReplicaAsItsOwn) {
  const auto gradient = [&] {
    const auto hook = w.register_hook([](const Tensor& gradient) { return gradient * 2; });
    get_replica_context().all_reduce(ReduceOp::sum, at::ones({}));  // all have registered theirs
    w.sum().backward();
    w.remove_hook(hook);
    w.sum().backward();
    return w.grad();
  };
  w.register_hook([](const Tensor& gradient) { return gradient * 10; });
  EXPECT_THAT(of_replicas(gradient), Each(30));
  EXPECT_THAT(numbers(gather(w.grad())), Each(90));
}

TEST_F(Leaves, AreFrozenByTheirReplicaAlone) {
  const Tensor v = strategy.build([] { return at::ones({2}).set_requires_grad(true); });
  const auto defined = strategy.run([&] {
    w.requires_grad_(false);
    if (replica() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // others have thawed theirs
    EXPECT_FALSE(w.requires_grad());
    (w * v).sum().backward();
    w.requires_grad_(true);
    return w.grad().defined();
  });
  EXPECT_THAT(defined.values(), Each(false));
  EXPECT_TRUE(w.requires_grad());
  EXPECT_THAT(numbers(gather(v.grad())), Each(9));
  strategy.run([&] { w.requires_grad_(false); });
  EXPECT_FALSE(w.requires_grad());
  EXPECT_THAT(strategy.run([&] { return (w + 1).requires_grad(); }).values(), Each(false));
  w.requires_grad_(true);
  EXPECT_THAT(strategy.run([&] { return (w + 1).requires_grad(); }).values(), Each(true));
  strategy.run([&] { w.requires_grad_(false); });
  w.set_requires_grad(true);
  EXPECT_TRUE(w.requires_grad());
  EXPECT_THAT(strategy.run([&] { return (w + 1).requires_grad(); }).values(), Each(true));
}

TEST_F(Leaves, NeedAGradientInAReplicaThatLooksWhenTheFirstHasFrozenItsOwn) {
  std::latch first_has_frozen(1);
  const auto need = strategy.run([&] {
    if (replica() == 0) {
      w.requires_grad_(false);
      first_has_frozen.count_down();
    }
    first_has_frozen.wait();
    return (w * 2).requires_grad();
  });
  EXPECT_THAT(need.values(), ElementsAre(false, true, true));
}

TEST_F(Leaves, RefuseTheSwitchThatIsOneForAllReplicas) {
  const auto freeze = [&] {
    w.sum();
    w.set_requires_grad(false);
    w.sum();
  };
  EXPECT_THAT(error_of([&] { strategy.run(freeze); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("requires_grad_()")));
}

TEST_F(Leaves, RefuseTheSwitchAlsoOfAReplicaThatLooksLater) {
  std::latch first_has_switched(1);
  const auto freeze = [&] {
    if (replica() == 0) {
      w.sum();
      w.set_requires_grad(false);
      first_has_switched.count_down();
    }
    first_has_switched.wait();
    if (replica() == 1) w.sum();
  };
  EXPECT_THAT(error_of([&] { strategy.run(freeze); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("requires_grad_()")));
}

TEST_F(MovedData, KeepsTheGradientsThatReplicasLeft) {
  strategy.run([&] { (w * 5).sum().backward(); });
  w.set_data(w.detach().clamp(-1, 1));
  EXPECT_THAT(numbers(gather(w.grad())), Each(15));
  EXPECT_THAT(of_replicas([&] { return w.detach(); }), Each(1));
  strategy.run([&] { w.sum().backward(); });
  EXPECT_THAT(numbers(gather(w.grad())), Each(18));
}

TEST_F(MovedData, LeavesFormerAliasesAsTheyAre) {
  const Tensor anchor = w.detach();
  EXPECT_THAT(of_replicas([&] { return w.detach() - anchor; }), Each(0));
  const Tensor other = w.detach() + 4;
  w.set_data(other);
  EXPECT_THAT(of_replicas([&] { return w.detach() - anchor; }), Each(4));
  global_add(1);
  EXPECT_THAT(of_replicas([&] { return w.detach() - anchor; }), Each(5));
  EXPECT_THAT(numbers(gather(other)), Each(8));
  other.add_(2);
  EXPECT_THAT(of_replicas([&] { return w.detach() - anchor; }), Each(7));
  anchor.fill_(0);
  EXPECT_THAT(of_replicas([&] { return w.detach() - anchor; }), Each(10));
}

TEST_F(MovedData, OfAnotherDtypeTrains) {
  auto net = strategy.build([] { return torch::nn::Linear(2, 1); });
  strategy.run([&] { net(at::ones({1, 2})).sum().backward(); });
  net->to(at::kDouble);
  net->zero_grad();
  strategy.run([&] { net(at::ones({1, 2}, at::kDouble)).sum().backward(); });
  EXPECT_EQ(net->weight.grad().scalar_type(), at::kDouble);
  EXPECT_THAT(numbers(gather(net->weight.grad())), Each(3));
}

TEST_F(MovedData, OfOneVectorLetsReplicasWriteEachParameterAlone) {
  const Tensor other = strategy.build([] { return at::rand({1000}).set_requires_grad(true); });
  torch::nn::utils::vector_to_parameters(torch::nn::utils::parameters_to_vector({w, other}), {w, other});
  const Tensor before = gather(other.detach()).clone();
  strategy.run([&] {
    const at::NoGradGuard no_grad;
    w.add_(replica());
  });
  EXPECT_THAT(numbers(gather(w.detach())), Each(4));
  EXPECT_TRUE(gather(other.detach()).equal(before));
}

TEST_F(MovedData, InAReplicaIsItsOwn) {
  const auto values = of_replicas([&] {
    const Tensor before = w.detach();
    w.set_data(at::full({2}, replica() + 10.0));
    return w.detach() * 100 + before;
  });
  EXPECT_THAT(values, ElementsAre(1003, 1103, 1203));
  EXPECT_THAT(numbers(gather(w.detach())), Each(11));
  strategy.run([&] { w.sum().backward(); });
  EXPECT_THAT(numbers(gather(w.grad())), Each(3));
  EXPECT_THAT(error_of([&] { strategy.run([&] { w.set_data(at::ones({3}, at::kDouble)); }); }),
              AllOf(HasSubstr("failed_precondition: set_data"), HasSubstr("outside of run")));
}

TEST_F(MovedData, IntoAPlainTensorIsRefusedNamingTheScope) {
  auto net = strategy.build([] { return torch::nn::Linear(2, 1); });
  EXPECT_THAT(error_of([&] { net->clone(); }), AllOf(HasSubstr("failed_precondition"), HasSubstr("strategy.build")));
  const auto copy = strategy.build([&] { return std::dynamic_pointer_cast<torch::nn::LinearImpl>(net->clone()); });
  EXPECT_TRUE(gather(copy->weight.detach()).equal(gather(net->weight.detach())));
  strategy.run([&] { copy->forward(at::ones({1, 2})).sum().backward(); });
  EXPECT_THAT(numbers(gather(copy->weight.grad())), Each(3));
  EXPECT_FALSE(net->weight.grad().defined());
}

class HeldComponents : public Aliases {};

TEST_F(HeldComponents, HaveTheNewValueAfterAGlobalWrite) {
  const auto held = strategy.run([&] { return local(w); });
  const auto view = strategy.run([&] { return w.detach().view({2, 1}); });
  global_add(1);
  for (const Tensor& component : held) EXPECT_THAT(numbers(component), Each(4));
  EXPECT_THAT(numbers(view[0]), Each(3));  // keeps what it shows
  EXPECT_THROW(w.detach().add_(at::ones({5})), c10::Error);
  EXPECT_THAT(numbers(held[1]), Each(4));
  {
    const at::NoGradGuard no_grad;
    held[1].add_(1);  // the replica's own
  }
  EXPECT_THAT(of_replicas([&] { return w.detach(); }), ElementsAre(4, 5, 4));
}

TEST_F(HeldComponents, HaveTheNewValueAfterAStepInRun) {
  Optimizer sgd(torch::optim::SGD({w}, 1.0));
  strategy.run([&] {
    const Tensor own = local(w);
    w.sum().backward();
    sgd.step();
    EXPECT_THAT(numbers(own), Each(0));
    const at::NoGradGuard no_grad;
    own.add_(replica());
    EXPECT_THAT(numbers(w), Each(replica()));
  });
}

TEST_F(HeldComponents, OfAVariableMayBeReadAtAnyTime) {
  const Variable made = strategy.build([] { return variable(at::ones({3})); });
  const auto parts = strategy.local_results(made);
  {
    const at::NoGradGuard no_grad;
    made.add_(1);
  }
  for (const Tensor& part : parts) EXPECT_THAT(numbers(part), Each(2));
}

TEST_F(HeldComponents, AreWhatReduceTakesOfVariables) {
  const Tensor buffer = strategy.build([] { return at::zeros({2}); });
  const auto returned = strategy.run([&] {
    buffer.fill_(replica() * 4);
    return buffer;
  });
  EXPECT_THAT(numbers(strategy.reduce(ReduceOp::sum, returned)), Each(12));
  EXPECT_THAT(numbers(strategy.gather(returned, 0)), ElementsAre(0, 0, 4, 4, 8, 8));
}

}  // namespace
}  // namespace tutti
