// What stands in grad() when a recorded function is called, and variables that share memory, against plain LibTorch.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <array>
#include <optional>

#include "tests/support/dice.h"
#include "tests/support/same_bits.h"
#include "tests/support/test_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/function/function.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

enum class Place { plain, merged, separate, sharded };

Tensor variable(const Tensor& value, Place place) {
  if (place == Place::plain) return value.clone().requires_grad_();
  const Mesh mesh({{"x", 2}}, test_devices(2), {.merge = place == Place::merged});
  std::vector<std::string> axes(static_cast<size_t>(value.dim()), kUnsharded);
  if (place == Place::sharded) axes[0] = "x";
  return distribute_tensor(value, Layout(axes, mesh)).requires_grad_();
}

void expect_same(const Tensor& seen, const Tensor& wanted, const std::string& where) {
  ASSERT_EQ(seen.defined(), wanted.defined()) << where;
  if (seen.defined()) {
    EXPECT_TRUE(same_bits(gather(seen), gather(wanted))) << where;
  }
}

class RecordedGradients : public testing::TestWithParam<Place> {};

// What is done to the gradients of two variables before each call: nothing, dropped or filled with zeros; what the
// function does to them: nothing, reset before, scaled or dropped behind; and one may be frozen, or have a hook, for a
// while.
TEST_P(RecordedGradients, OfRandomCallsAreThoseOfPlainOnes) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    fuzz::Dice dice(seed);
    const int inside = static_cast<int>(dice.below(4));
    const bool freezes = dice.chance(30), hooks = dice.chance(30);
    const Tensor start = torch::randn({2, 3});
    std::array<Tensor, 2> own{variable(start, GetParam()), variable(start + 1, GetParam())};
    std::array<Tensor, 2> plain{variable(start, GetParam()), variable(start + 1, GetParam())};
    const auto step = [inside](std::array<Tensor, 2>& variables, const Tensor& x) {
      if (inside == 1) variables[0].mutable_grad() = Tensor();
      const Tensor loss = (variables[0] * x + variables[1].tanh()).square().sum();
      loss.backward();
      if (inside == 2 && variables[0].grad().defined()) variables[0].mutable_grad().mul_(0.5);
      if (inside == 3) variables[1].mutable_grad() = Tensor();
      return loss.detach();
    };
    const auto recorded = function([&](const Tensor& x) { return step(own, x); });
    unsigned hook = 0;  // of both
    for (int call = 0; call < 14; ++call) {
      const int before = static_cast<int>(dice.below(4)), which = static_cast<int>(dice.below(3));
      const bool freeze = freezes && (call == 5 || call == 8);
      for (auto* variables : {&own, &plain})
        for (size_t i = 0; i < 2; ++i) {
          Tensor& variable = (*variables)[i];
          if (freeze && i == 1) variable.requires_grad_(call == 8);
          if (hooks && i == 0 && call == 6)
            hook = variable.register_hook([](const Tensor& gradient) { return 2 * gradient; });
          if (hooks && i == 0 && call == 11) variable.remove_hook(hook);
          if (which == 2 || which == static_cast<int>(i)) {
            if (before == 1) variable.mutable_grad() = Tensor();
            if (before == 2 && variable.grad().defined()) variable.mutable_grad().zero_();
          }
        }
      const Tensor x = torch::randn({2, 3});
      const std::string where = "program " + std::to_string(seed) + ", call " + std::to_string(call);
      expect_same(recorded(x), step(plain, x), where);
      for (size_t i = 0; i < 2; ++i) expect_same(own[i].grad(), plain[i].grad(), where);
      if (HasFailure()) return;
    }
  }
}

enum class Update { sgd, momentum, rmsprop, adagrad };

std::unique_ptr<torch::optim::Optimizer> optimizer(Update update, const std::array<Tensor, 2>& variables) {
  namespace optim = torch::optim;
  const std::vector<Tensor> parameters(variables.begin(), variables.end());
  if (update == Update::rmsprop) return std::make_unique<optim::RMSprop>(parameters, optim::RMSpropOptions(0.1));
  if (update == Update::adagrad) return std::make_unique<optim::Adagrad>(parameters, optim::AdagradOptions(0.1));
  const auto options = optim::SGDOptions(0.1).momentum(update == Update::momentum ? 0.5 : 0).weight_decay(0.01);
  return std::make_unique<optim::SGD>(parameters, options);
}

// A function that steps alone: LibTorch's optimizers work on the data() of variables and of gradients, which come, go,
// are filled and replaced before each call, as a variable's memory is.
TEST_P(RecordedGradients, MayBeSteppedByAFunctionOfItsOwn) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    fuzz::Dice dice(seed);
    const auto update = static_cast<Update>(dice.below(4));
    const Tensor start = torch::randn({2, 3});
    std::array<Tensor, 2> own{variable(start, GetParam()), variable(start + 1, GetParam())};
    std::array<Tensor, 2> plain{variable(start, GetParam()), variable(start + 1, GetParam())};
    const auto own_optimizer = optimizer(update, own), plain_optimizer = optimizer(update, plain);
    const auto recorded = function([&] { own_optimizer->step(); });
    const bool keeps = dice.chance(50), lacks = dice.chance(30), moves = dice.chance(30);
    for (int call = 0; call < 14; ++call) {
      const bool drops = !keeps || dice.chance(10), replaces = dice.chance(20), adds = dice.chance(20);
      const Tensor x = torch::randn({2, 3});
      for (auto* variables : {&own, &plain}) {
        auto& [first, second] = *variables;
        for (Tensor* one : {&first, &second}) {
          if (drops) one->mutable_grad() = Tensor();
          if (!drops && !adds && one->grad().defined()) one->mutable_grad().zero_();
        }
        if (moves && call == 7) first.set_data((first * 2).detach());
        const Tensor loss = (first * x).square().sum();
        (lacks && call % 5 == 4 ? loss : loss + second.tanh().sum()).backward();
        if (replaces) first.mutable_grad() = first.grad() * 3;
      }
      recorded();
      plain_optimizer->step();
      const std::string where = "program " + std::to_string(seed) + ", call " + std::to_string(call);
      for (size_t i = 0; i < 2; ++i) {
        expect_same(own[i].detach(), plain[i].detach(), where);
        expect_same(own[i].grad(), plain[i].grad(), where);
      }
      if (HasFailure()) return;
    }
    if (!lacks && !moves) {
      EXPECT_LE(recorded.tracing_count(), 6) << seed;
    }
  }
}

// Zeroed before every second call: two recordings of a call that finds none, and two of one that finds some.
TEST_P(RecordedGradients, ThatAreAddedUpAreReplayedToo) {
  Tensor w = variable(torch::ones({3}), GetParam());
  const auto step = function([&](const Tensor& x) { (w * x).sum().backward(); });
  for (int call = 0; call < 20; ++call) {
    if (call % 2 == 0) w.mutable_grad() = Tensor();
    step(torch::full({3}, call));
    EXPECT_TRUE(torch::equal(gather(w.grad()), torch::full({3}, call % 2 == 0 ? call : 2 * call - 1))) << call;
  }
  EXPECT_EQ(step.tracing_count(), 4);
}

// As a pack of a reduction gives them: each place is a recording of its own. None of these is gone on with when the
// variable lies in other memory, or one replacement would be taken for one at each call.
TEST(RecordedGradientsInPacks, AreForgottenWithTheMemoryOfTheirVariable) {
  Tensor w = torch::ones({3}).requires_grad_();
  const auto step = function([&](const Tensor& x) { (w * x).sum().backward(); });
  for (int round = 0; round < 4; ++round) {
    for (int place = 0; place < 3; ++place) {
      w.mutable_grad() = torch::zeros({6}).narrow(0, place, 3);
      step(torch::full({3}, place));
      EXPECT_TRUE(torch::equal(w.grad(), torch::full({3}, place))) << round;
    }
    w.set_data(w.detach().clone());
  }
}

// As vector_to_parameters() leaves them, and a GPU's recurrent networks; each is replaced and frozen by itself.
TEST_P(RecordedGradients, OfVariablesInOneMemoryAreTheirOwn) {
  for (int change = 0; change < 4; ++change) {
    SCOPED_TRACE(change);
    const Tensor flat = variable(torch::randn({12}), GetParam()).detach();
    const auto part = [&](int64_t begin) { return flat.narrow(0, begin, 4); };
    std::array<Tensor, 3> parts;
    for (size_t i = 0; i < 3; ++i) {
      parts[i] = variable(torch::zeros({4}), GetParam());
      parts[i].set_data(part(4 * static_cast<int64_t>(i)));
    }
    parts[2].requires_grad_(false);
    const auto step = [&](const Tensor& x) {
      const Tensor loss = (parts[0] * x + parts[1].tanh() * x + parts[2] * x).square().sum();
      loss.backward();
      return loss.detach();
    };
    const auto recorded = function(step);
    const auto gradients = [&] {
      std::vector<Tensor> found;
      for (Tensor& tensor : parts) found.push_back(std::exchange(tensor.mutable_grad(), Tensor()));
      return found;
    };
    for (int call = 0; call < 9; ++call) {
      if (call == 4 && change == 1) parts[1].set_data(variable(torch::ones({4}), GetParam()).detach());
      if (call == 4 && change == 2) parts[1].requires_grad_(false);
      if (call == 4 && change == 3) parts[2].set_data(part(2));
      const Tensor x = torch::randn({4});
      const Tensor seen = recorded(x);
      const auto seen_gradients = gradients();
      expect_same(seen, step(x), "call " + std::to_string(call));
      const auto wanted = gradients();
      for (size_t i = 0; i < 3; ++i) expect_same(seen_gradients[i], wanted[i], "call " + std::to_string(call));
    }
    EXPECT_LE(recorded.tracing_count(), 4);
  }
}

// As views of one flat tensor, and then each in memory of its own.
TEST_P(RecordedGradients, ThatLayInOneBufferMayLieInTwo) {
  std::array<Tensor, 2> own{variable(torch::zeros({2}), GetParam()), variable(torch::zeros({2}), GetParam())};
  const auto step = function([&](const Tensor& x) { ((own[0] * 2 + own[1] * 3) * x).sum().backward(); });
  for (int call = 0; call < 15; ++call) {
    const Tensor flat = variable(torch::arange(4.0).view({2, 2}), GetParam()).detach();
    const bool together = call % 5 < 3;
    for (size_t i = 0; i < 2; ++i) {
      const Tensor part = flat.select(1, static_cast<int64_t>(i));
      own[i].mutable_grad() = together ? part : part.clone();
    }
    step(torch::full({2}, call));
    EXPECT_TRUE(torch::equal(gather(own[0].grad()), moved(torch::tensor({0., 2.})) + 2 * call)) << call;
    EXPECT_TRUE(torch::equal(gather(own[1].grad()), moved(torch::tensor({1., 3.})) + 3 * call)) << call;
  }
}

INSTANTIATE_TEST_SUITE_P(Places, RecordedGradients,
                         testing::Values(Place::plain, Place::merged, Place::separate, Place::sharded));

TEST(RecordedReplicas, MayWriteStatisticsFromTheFirstCallOn) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  std::array<torch::nn::BatchNorm1d, 2> norms{nullptr, nullptr};
  std::array<Tensor, 2> sums;
  strategy.build([&] {
    for (size_t i = 0; i < 2; ++i) {
      norms[i] = torch::nn::BatchNorm1d(3);
      sums[i] = torch::zeros({3});
    }
  });
  const auto step = [&](size_t which, const Tensor& x) {
    const auto parts = strategy.run(
        [&](const Tensor& given) {
          const torch::NoGradGuard guard;
          const Tensor part = moved(given);
          sums[which].mul_(0.5).add_(part.mean(0));
          return norms[which]->forward(part).square().sum();
        },
        PerReplica<Tensor>(x.chunk(2)));
    return strategy.reduce(ReduceOp::sum, parts);
  };
  const auto recorded = function([&](const Tensor& x) { return step(0, x); });
  for (int call = 0; call < 6; ++call) {
    const Tensor x = torch::randn({8, 3});
    expect_same(recorded(x), step(1, x), "call " + std::to_string(call));
  }
  EXPECT_EQ(recorded.tracing_count(), 3);
  expect_same(sums[0], sums[1], "sum");
  expect_same(norms[0]->running_mean, norms[1]->running_mean, "mean");
  expect_same(norms[0]->running_var, norms[1]->running_var, "variance");
}

// An evaluation has nothing to do with the gradients that a step has left.
TEST(RecordedReplicas, LeaveGradientsOfEarlierStepsAlone) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  auto net = strategy.build([] { return torch::nn::Linear(3, 1); });
  const auto batch = strategy.distribute(torch::arange(12.0F).view({4, 3}) / 16);
  strategy.run([&](const Tensor& x) { net->forward(x).square().sum().backward(); }, batch);
  const Tensor gradient = gather(net->weight.grad()).clone();
  const auto evaluate = [&](const PerReplica<Tensor>& examples) {
    const torch::NoGradGuard no_grad;
    return strategy.reduce(ReduceOp::sum,
                           strategy.run([&](const Tensor& x) { return net->forward(x).sum(); }, examples));
  };
  const auto recorded = function(evaluate);
  for (int call = 0; call < 4; ++call) expect_same(recorded(batch), evaluate(batch), "the evaluation");
  expect_same(net->weight.grad(), gradient, "the gradient");
}

// As where a checkpoint is restored, between any two calls.
TEST(RecordedReplicas, MayWriteToWhatGlobalViewWritesNowAndThen) {
  for (int when = 1; when < 8; ++when) {
    MirroredStrategy strategy({.devices = test_devices(2)});
    Tensor running, same;
    strategy.build([&] { running = torch::zeros({3}), same = torch::zeros({3}); });
    const auto step_of = [&](const Tensor& kept) {
      return [&, kept](const PerReplica<Tensor>& batch) {
        strategy.run([&](const Tensor& x) { Tensor(kept).mul_(0.5).add_(x.mean(0)); }, batch);
      };
    };
    const auto plain = step_of(same);
    const auto recorded = function(step_of(running));
    for (int call = 0; call < 9; ++call) {
      const auto batch = strategy.distribute(torch::arange(12.0F).view({4, 3}) / (call + 1));
      if (call == when)
        for (const Tensor& kept : {running, same}) Tensor(kept).copy_(torch::ones({3}));
      plain(batch);
      recorded(batch);
      if (call % 3 == when % 3) expect_same(running, same, "what the replicas wrote");
    }
  }
}

}  // namespace
}  // namespace tutti
