// Idioms of real programs around variables, their aliases and their gradients: on several replicas as on one device
// without a strategy.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/distribute/default_strategy.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::equivalence {
namespace {

namespace nn = torch::nn;
using torch::NoGradGuard;
using torch::optim::SGD;

// A module, its data, and what a step of the program needs.
struct Program {
  explicit Program(Strategy& strategy) : strategy(strategy) {
    set_random_seed(7);
    net = build();
  }

  nn::Sequential build() {
    return strategy.build([] { return nn::Sequential(nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 2)); });
  }
  std::vector<Tensor> parameters() { return net->parameters(); }
  Tensor loss(const Tensor& x, const Tensor& y) { return (net->forward(x) - y).square().sum() / 8; }
  // Calls f(x, y) on each replica's part.
  template <class F>
  void run(const F& f) {
    strategy.run(f, inputs, targets);
  }
  void backward() {
    run([&](const Tensor& x, const Tensor& y) { loss(x, y).backward(); });
  }

  Strategy& strategy;
  nn::Sequential net{nullptr};
  PerReplica<Tensor> inputs = strategy.distribute(torch::linspace(-2, 3, 24).view({8, 3}).sin());
  PerReplica<Tensor> targets = strategy.distribute(torch::linspace(-1, 1, 16).view({8, 2}));
};

void target_network(Program& p) {
  auto target = p.build();
  const auto online = p.parameters(), delayed = target->parameters();
  std::vector<Tensor> aliases;
  for (const Tensor& parameter : delayed) aliases.push_back(parameter.data());
  SGD sgd(online, 0.1);
  for (int step = 0; step < 4; ++step) {
    sgd.zero_grad();
    p.run([&](const Tensor& x, const Tensor&) {
      const Tensor wanted = torch::linear(x, aliases[0], aliases[1]).tanh();
      const Tensor mine = torch::linear(x, online[0].detach(), online[1]).tanh();
      ((mine - wanted).square().sum() + (p.net->forward(x) - target->forward(x).detach()).square().sum()).backward();
    });
    sgd.step();
    for (size_t i = 0; i < online.size(); ++i) delayed[i].data().mul_(0.5).add_(online[i].data(), 0.5);
  }
}

void moving_average_in_run(Program& p) {
  std::vector<Tensor> averages;
  p.strategy.build([&] {
    for (const Tensor& parameter : p.parameters()) averages.push_back(parameter.detach().clone());
  });
  Optimizer sgd(SGD(p.parameters(), 0.1));
  for (int step = 0; step < 4; ++step)
    p.run([&](const Tensor& x, const Tensor& y) {
      sgd.zero_grad();
      p.loss(x, y).backward();
      sgd.step();
      const NoGradGuard no_grad;
      for (size_t i = 0; i < averages.size(); ++i) averages[i].lerp_(p.parameters()[i], 0.25);
    });
  const NoGradGuard no_grad;
  for (size_t i = 0; i < averages.size(); ++i) p.parameters()[i].copy_(averages[i]);
}

void freezing_between_runs(Program& p) {
  SGD sgd(p.parameters(), 0.1);
  for (int step = 0; step < 6; ++step) {
    p.parameters()[0].requires_grad_(step % 2 == 0);
    p.parameters()[3].set_requires_grad(step % 3 != 1);
    sgd.zero_grad();
    p.backward();
    sgd.step();
  }
}

void freezing_in_run(Program& p) {
  auto other = p.build();
  Optimizer mine(SGD(p.parameters(), 0.1)), others(SGD(other->parameters(), 0.1));
  const auto freeze = [](nn::Sequential module, bool frozen) {
    for (Tensor& parameter : module->parameters()) parameter.requires_grad_(!frozen);
  };
  for (int step = 0; step < 4; ++step)
    p.run([&](const Tensor& x, const Tensor& y) {
      freeze(other, true);
      mine.zero_grad();
      (p.loss(x, y) + (other->forward(x) * p.net->forward(x)).sum() / 8).backward();
      mine.step();
      freeze(other, false);
      freeze(p.net, true);
      others.zero_grad();
      (other->forward(x) * p.net->forward(x)).sum().backward();
      others.step();
      freeze(p.net, false);
    });
}

void evaluating_first(Program& p) {
  {
    const c10::InferenceMode inference;
    p.run([&](const Tensor& x, const Tensor&) { p.net->forward(x); });
  }
  SGD sgd(p.parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    p.backward();
    sgd.step();
    const c10::InferenceMode inference;
    p.run([&](const Tensor& x, const Tensor&) { p.net->forward(x); });
  }
}

void another_dtype_midway(Program& p) {
  SGD sgd(p.parameters(), 0.1);
  for (int step = 0; step < 4; ++step) {
    const auto dtype = step < 2 ? torch::kFloat : torch::kDouble;
    p.net->to(dtype);
    sgd.zero_grad();
    p.run([&](const Tensor& x, const Tensor& y) { p.loss(x.to(dtype), y.to(dtype)).backward(); });
    sgd.step();
  }
}

void clipping(Program& p) {
  SGD sgd(p.parameters(), 0.1);
  Optimizer inside(SGD(p.parameters(), 0.1));
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    p.backward();
    nn::utils::clip_grad_norm_(p.parameters(), 0.5);
    sgd.step();
    p.run([&](const Tensor& x, const Tensor& y) {
      inside.zero_grad();
      p.loss(x, y).backward();
      inside.sum_gradients();
      nn::utils::clip_grad_value_(p.parameters(), 0.01);
      inside.step();
    });
  }
}

void clamping_by_set_data(Program& p) {
  torch::optim::Adam adam(p.parameters(), 0.01);
  for (int step = 0; step < 3; ++step) {
    adam.zero_grad();
    p.backward();
    for (Tensor& parameter : p.parameters()) parameter.set_data(parameter.detach().clamp(-0.3, 0.3));
    adam.step();
  }
}

void parameters_as_one_vector(Program& p) {
  SGD sgd(p.parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    p.backward();
    nn::utils::vector_to_parameters(nn::utils::parameters_to_vector(p.parameters()) * 0.9, p.parameters());
    sgd.step();
  }
}

void hooks_everywhere(Program& p) {
  SGD sgd(p.parameters(), 0.1);
  Tensor first = p.parameters()[0], last = p.parameters()[3];
  first.register_hook([](const Tensor& gradient) { return gradient * 2; });
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    p.run([&](const Tensor& x, const Tensor& y) {
      const auto hook = last.register_hook([](const Tensor& gradient) { return gradient * 3; });
      p.loss(x, y).backward();
      last.remove_hook(hook);
    });
    sgd.step();
  }
}

void aliases_kept_over_steps(Program& p) {
  const Tensor w = p.parameters()[0];
  const Tensor initial = w.detach().clone(), flat = w.detach().view(-1), row = w.detach()[1], turned = w.detach().t();
  SGD sgd(p.parameters(), 0.1);
  for (int step = 0; step < 4; ++step) {
    sgd.zero_grad();
    p.run([&](const Tensor& x, const Tensor& y) {
      const Tensor near = (w - initial).square().sum() + (w.view(-1) * flat).sum() + (w[1] * row).sum();
      (p.loss(x, y) + (near + (w.t() * turned).sum()) / p.strategy.num_replicas_in_sync()).backward();
    });
    sgd.step();
    if (step == 1) row.mul_(0.5);
  }
}

void leaves_made_outside(Program& p) {
  const Tensor w = p.parameters()[0];
  const Tensor delta = torch::zeros_like(w).detach().requires_grad_();
  const Tensor scale = w.detach().clone().requires_grad_();
  SGD sgd({delta, scale, p.parameters()[2]}, 0.1);
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    p.run([&](const Tensor& x, const Tensor& y) {
      const Tensor hidden = torch::linear(x, w.detach() * scale + delta).tanh();
      (torch::linear(hidden, p.parameters()[2]) - y).square().sum().backward();
    });
    sgd.step();
  }
  w.data().copy_(delta + scale.detach());
}

void all_in_an_open_scope(Program& p) {
  const auto scope = p.strategy.scope();
  nn::Linear linear(3, 4);
  const Tensor extra = (torch::ones({4}) * 0.5).requires_grad_();
  const Tensor frozen = linear->weight.detach();
  std::vector<Tensor> all = linear->parameters();
  all.push_back(extra);
  Optimizer sgd(SGD(all, 0.05));
  for (int step = 0; step < 3; ++step) {
    p.run([&](const Tensor& x, const Tensor&) {
      sgd.zero_grad();
      (linear(x) * extra + torch::linear(x, frozen)).square().sum().backward();
      sgd.step();
    });
  }
  p.parameters()[0].data().copy_(linear->weight.detach() * extra.detach().unsqueeze(1));
}

void accumulating_over_runs(Program& p) {
  SGD sgd(p.parameters(), 0.1);
  for (int step = 0; step < 6; ++step) {
    p.backward();
    if (step % 2 == 0) static_cast<void>(p.parameters()[0].grad().sum().item<float>());
    if (step % 3 != 2) continue;
    sgd.step();
    sgd.zero_grad();
  }
}

void stepping_in_every_way(Program& p) {
  Optimizer sgd(SGD(p.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01)));
  for (int step = 0; step < 3; ++step) {
    p.run([&](const Tensor& x, const Tensor& y) {
      sgd.zero_grad();
      p.loss(x, y).backward();
      sgd.step();
    });
    sgd.zero_grad();
    p.backward();
    sgd.step();
    p.run([&](const Tensor& x, const Tensor& y) {
      sgd.zero_grad();
      p.loss(x, y).backward();
    });
    sgd.step();
  }
}

struct Idiom {
  const char* name;
  void (*play)(Program&);
};

constexpr Idiom kIdioms[] = {
    {"TargetNetwork", target_network},
    {"MovingAverageInRun", moving_average_in_run},
    {"FreezingBetweenRuns", freezing_between_runs},
    {"FreezingInRun", freezing_in_run},
    {"EvaluatingFirst", evaluating_first},
    {"AnotherDtypeMidway", another_dtype_midway},
    {"Clipping", clipping},
    {"ClampingBySetData", clamping_by_set_data},
    {"ParametersAsOneVector", parameters_as_one_vector},
    {"HooksEverywhere", hooks_everywhere},
    {"AliasesKeptOverSteps", aliases_kept_over_steps},
    {"LeavesMadeOutside", leaves_made_outside},
    {"AllInAnOpenScope", all_in_an_open_scope},
    {"AccumulatingOverRuns", accumulating_over_runs},
    {"SteppingInEveryWay", stepping_in_every_way},
};

std::vector<Tensor> results_of(Strategy& strategy, const Idiom& idiom) {
  Program program(strategy);
  idiom.play(program);
  std::vector<Tensor> results;
  for (const Tensor& parameter : program.parameters()) results.push_back(gather(parameter.detach()).to(torch::kFloat));
  return results;
}

class ReplicaIdioms : public testing::TestWithParam<std::tuple<Idiom, int>> {};

TEST_P(ReplicaIdioms, GiveTheNumbersOfOneDevice) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const auto& [idiom, replicas] = GetParam();
  MirroredStrategy strategy({.devices = test_devices(replicas)});
  const auto expected = results_of(default_strategy(), idiom), seen = results_of(strategy, idiom);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(seen[i].allclose(expected[i], 1e-4, 1e-5)) << "parameter " << i << ":\n"
                                                           << seen[i] << "\nexpected\n"
                                                           << expected[i];
}

INSTANTIATE_TEST_SUITE_P(OnReplicas, ReplicaIdioms,
                         testing::Combine(testing::ValuesIn(kIdioms), testing::Values(1, 2, 4)), [](const auto& info) {
                           return std::get<0>(info.param).name + std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace tutti::equivalence
