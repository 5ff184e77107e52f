#include "tutti/function/function.h"
#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/support/same_bits.h"
#include "tutti/core/error.h"
#include "tutti/function/control_flow.h"
#include "tutti/function/graphviz.h"
#include "tutti/function/program.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Function, GivesTheBitsOfPlainCallsEachTime) {
  const auto f = [](const Tensor& x) { return (x.exp() + 1).log().sum({1}) / x.size(0); };
  const auto g = function(f);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = torch::randn({4, 5});
    EXPECT_TRUE(same_bits(g(x), f(x))) << "call " << i;
  }
  EXPECT_EQ(g.tracing_count(), 2);
}

TEST(Function, TrainsAsPlainCallsDo) {
  struct Net {
    torch::nn::Sequential layers{torch::nn::Linear(20, 16), torch::nn::ReLU(), torch::nn::BatchNorm1d(16),
                                 torch::nn::Linear(16, 4)};
    torch::optim::SGD optimizer{layers->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)};
    Tensor step(const Tensor& x, const Tensor& y) {
      optimizer.zero_grad();
      const Tensor loss = torch::nll_loss(torch::log_softmax(layers->forward(x), 1), y);
      loss.backward();
      optimizer.step();
      return loss;
    }
  };
  torch::manual_seed(1);
  Net plain;
  torch::manual_seed(1);
  Net recorded;
  const auto step = function([&](const Tensor& x, const Tensor& y) { return recorded.step(x, y); });
  for (int i = 0; i < 20; ++i) {
    const Tensor x = torch::randn({8, 20}), y = torch::randint(4, {8});
    EXPECT_TRUE(same_bits(plain.step(x, y), step(x, y))) << "step " << i;
    for (size_t p = 0; p < plain.layers->parameters().size(); ++p) {
      EXPECT_TRUE(same_bits(plain.layers->parameters()[p], recorded.layers->parameters()[p])) << "step " << i;
      EXPECT_TRUE(same_bits(plain.layers->parameters()[p].grad(), recorded.layers->parameters()[p].grad()));
    }
    for (size_t b = 0; b < plain.layers->buffers().size(); ++b)
      EXPECT_TRUE(same_bits(plain.layers->buffers()[b], recorded.layers->buffers()[b])) << "step " << i;
  }
  EXPECT_EQ(step.tracing_count(), 3);  // the first made the momentum
}

// Chains, operands that are broadcast in all ways, writes in place to what came from outside, and what ends a group.
TEST(Function, JoinsPointwiseCallsThatGiveTheBitsOfPlainOnes) {
  for (const int64_t rows : {1, 7, 300})
    for (const int64_t columns : {1, 10, 48, 1300}) {
      const auto make = [&] { return std::vector{torch::ones({rows, columns}), torch::ones({columns})}; };
      const auto f = [](const std::vector<Tensor>& kept, const Tensor& x, const Tensor& row, const Tensor& column) {
        const Tensor centered = (x - row) * column + 0.1, largest = centered.amax();
        const Tensor clamped = centered.relu().clamp_max(largest * 0.5) / 3;
        kept[0].mul_(0.9).add_(clamped, 0.1);
        kept[1].copy_(kept[0].sum(0)).neg_();
        return std::vector{clamped.square() - 1 / (kept[0].abs() + 1e-3), -clamped.t() * 2, centered.pow(3).sum()};
      };
      const auto plain = make(), own = make();
      const auto recorded =
          function([&](const Tensor& x, const Tensor& row, const Tensor& column) { return f(own, x, row, column); });
      for (int i = 0; i < 5; ++i) {
        const Tensor x = torch::randn({rows, columns}), row = torch::randn({columns}), column = torch::randn({rows, 1});
        const auto wanted = f(plain, x, row, column), made = recorded(x, row, column);
        for (size_t k = 0; k < wanted.size(); ++k) EXPECT_TRUE(same_bits(made[k], wanted[k])) << k << ", call " << i;
        for (size_t k = 0; k < plain.size(); ++k) EXPECT_TRUE(same_bits(own[k], plain[k])) << k << ", call " << i;
      }
    }
}

TEST(Function, PoolsAsPlainCallsDo) {
  const auto f = [](const Tensor& x) {
    const Tensor leaf = x.detach().requires_grad_();
    const Tensor pooled = torch::max_pool2d(leaf.relu(), {2, 2});
    return std::pair(pooled.detach(), torch::autograd::grad({pooled.square().sum()}, {leaf})[0]);
  };
  const auto g = function(f);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = torch::randn({3, 2, 9, 12});
    if (i == 4) x.select(0, 1).fill_(std::nan(""));  // after the first replay was compared
    const auto made = g(x), wanted = f(x);
    EXPECT_TRUE(same_bits(made.first, wanted.first)) << "call " << i;
    EXPECT_TRUE(same_bits(made.second, wanted.second)) << "call " << i;
  }
}

TEST(Function, WhatItPoolsOfLinesIsNoView) {
  const auto f = function([](const Tensor& x) { return torch::max_pool1d(x, 2).detach_(); });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = torch::randn({2, 3, 8});
    EXPECT_TRUE(f(x).equal(torch::max_pool1d(x, 2)));
  }
}

TEST(Function, WritesToNoLeafWhereAnOutFormIsMadeOfOthers) {
  Tensor leaf = torch::zeros({1, 4}, torch::requires_grad());
  const auto f = function([&](const Tensor& x) { return torch::avg_pool1d_out(leaf, x, 2); });
  EXPECT_THAT(what_of([&] { f(torch::ones({1, 8})); }), HasSubstr("a leaf Variable that requires grad"));
}

// A seed of which nothing was drawn when the function began is not its own.
TEST(Function, SeedsThatItSetsAreSetInEachReplay) {
  const auto f = [](const Tensor& x) {
    Tensor sum = torch::rand_like(x);
    torch::manual_seed(5);
    sum = sum + torch::rand_like(x);
    torch::manual_seed(6);
    return sum;
  };
  const auto g = function(f, {.name = "g"});
  for (int i = 0; i < 5; ++i) {
    const Tensor x = torch::zeros({3});
    torch::manual_seed(i);
    const Tensor wanted = f(x), wanted_next = torch::randn({3});
    torch::manual_seed(i);
    const Tensor made = g(x), next = torch::randn({3});
    EXPECT_TRUE(made.equal(wanted)) << "call " << i;
    EXPECT_TRUE(next.equal(wanted_next)) << "call " << i;
  }
  int seed = 0;
  const auto other = function([&](const Tensor& x) { return torch::manual_seed(++seed), torch::rand_like(x); });
  const Tensor x = torch::zeros({3});
  other(x);
  EXPECT_THAT(what_of([&] { other(x); }), HasSubstr("call 0 was manual_seed(1) and then manual_seed(2)"));
  const auto in_branch = function(
      [](const Tensor& flag, const Tensor& to) {
        return cond(
            flag, [&] { return torch::manual_seed(3), torch::rand_like(to); }, [&] { return to + 1; });
      },
      {.name = "f"});
  for (const bool flag : {true, false}) {
    torch::manual_seed(0);
    EXPECT_THAT(what_of([&] { in_branch(torch::tensor(flag), x); }),
                HasSubstr("f: manual_seed in the branch of cond for true cannot be recorded; seed before it"));
  }
}

TEST(Function, EachShapeIsRecordedAndEachNumber) {
  const auto f = function([](const Tensor& x, double factor) { return x * factor; });
  const Tensor a = torch::ones({2}), b = torch::ones({3});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_bits(f(a, 2.), a * 2.));
    EXPECT_TRUE(same_bits(f(b, 2.), b * 2.));
    EXPECT_TRUE(same_bits(f(a, 3.), a * 3.));
  }
  EXPECT_EQ(f.tracing_count(), 6);
}

TEST(Function, AValueReadByCppIsRefused) {
  const auto f = function([](const Tensor& x) { return x * x.sum().item<double>(); }, {.name = "scale"});
  EXPECT_THAT(what_of([&] { f(torch::ones({2})); }), HasSubstr("scale: aten::_local_scalar_dense"));
  const auto g = function([](const Tensor& x) { return x + *(x * 2).data_ptr<float>(); });
  EXPECT_THAT(what_of([&] { g(torch::ones({2})); }), HasSubstr("C++ reads or writes the memory"));
  const auto h = function([](const Tensor& x) { return x.index({x > 0}); });
  EXPECT_THAT(what_of([&] { h(torch::ones({2})); }), HasSubstr("its result's shape"));
}

TEST(Function, ANumberThatChangesIsNamed) {
  double rate = 1;
  const auto f = function([&](const Tensor& x) { return x * (rate *= 0.5); }, {.name = "decay"});
  f(torch::ones({2}));
  const std::string error = what_of([&] { f(torch::ones({2})); });
  EXPECT_THAT(error, HasSubstr("aten::mul"));
  EXPECT_THAT(error, HasSubstr("0.5"));
  EXPECT_THAT(error, HasSubstr("0.25"));
}

TEST(Function, ConstantsThatCppMakesAreKeptByValue) {
  const auto f = [](const Tensor& x) {
    Tensor mask = torch::empty({3});
    for (int i = 0; i < 3; ++i) mask[i] = i;           // by ops
    return x * mask + torch::tensor({1.f, 2.f, 3.f});  // by a loop in C++
  };
  const auto g = function(f);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = torch::randn({3});
    EXPECT_TRUE(same_bits(g(x), f(x)));
  }
}

TEST(Function, GradientsThatAddUpGoOnAddingUp) {
  const Tensor w = torch::ones({3}, torch::requires_grad());
  const auto f = function([&](const Tensor& x) { (w * x).sum().backward(); });
  for (int i = 0; i < 5; ++i) f(torch::ones({3}));
  EXPECT_TRUE(same_bits(w.grad(), torch::full({3}, 5.f)));
  w.mutable_grad() = Tensor();  // the caller starts anew
  for (int i = 0; i < 4; ++i) f(torch::ones({3}));
  EXPECT_TRUE(same_bits(w.grad(), torch::full({3}, 4.f)));
}

TEST(Function, LetsGradientsBeThatItDoesNotTouch) {
  const Tensor w = torch::ones({3}, torch::requires_grad());
  const auto f = function([&](const Tensor& x) { return (w * x).sum().detach(); });
  for (int i = 0; i < 4; ++i) f(torch::ones({3}));
  (w * 2).sum().backward();
  for (int i = 0; i < 4; ++i) {
    f(torch::ones({3}));
    EXPECT_TRUE(same_bits(w.grad(), torch::full({3}, 2.f))) << i;
  }
  w.mutable_grad() = Tensor();
  f(torch::ones({3}));
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(f.tracing_count(), 4);
}

TEST(Function, KnowsOnceThatItLetsGradientsBe) {
  const Tensor w = torch::ones({3}, torch::requires_grad());
  const auto f = function([&](const Tensor& x) { return (w * x).sum().detach(); });
  for (int i = 0; i < 10; ++i) {
    w.mutable_grad() = i % 2 ? torch::ones({3}) : Tensor();
    f(torch::ones({3}));
    EXPECT_EQ(w.grad().defined(), i % 2 == 1) << i;
  }
  EXPECT_LE(f.tracing_count(), 3);
}

TEST(Function, ResetsGradientsAsAPlainCallDoes) {
  Tensor w = torch::ones({3}, torch::requires_grad());
  const auto f = function([&](const Tensor& x) {
    w.mutable_grad() = Tensor();
    return (w * x).sum().detach();
  });
  for (int i = 0; i < 8; ++i) {
    if (i % 2) (w * 2).sum().backward();
    f(torch::ones({3}));
    EXPECT_FALSE(w.grad().defined()) << i;
  }
}

TEST(Function, ASavedGraphSeesThatAReplayHasWritten) {
  const Tensor w = torch::ones({3}, torch::requires_grad());
  const auto f = function([&](const Tensor& x) {
    const torch::NoGradGuard no_grad;
    w.sub_(x);
  });
  for (int i = 0; i < 3; ++i) f(torch::ones({3}));
  const Tensor y = (w * w).sum();
  f(torch::ones({3}));
  EXPECT_THAT(what_of([&] { y.backward(); }), HasSubstr("modified by an inplace operation"));
}

TEST(Function, RandomNumbersGoOnAsInPlainCalls) {
  const auto f = [](const Tensor& x) { return torch::dropout(x, 0.5, true) + torch::rand({4}) + torch::randn_like(x); };
  const auto g = function(f);
  torch::manual_seed(3);
  std::vector<Tensor> wanted;
  for (int i = 0; i < 6; ++i) wanted.push_back(f(torch::ones({4})));
  torch::manual_seed(3);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(same_bits(g(torch::ones({4})), wanted[static_cast<size_t>(i)])) << i;
}

TEST(Function, AReplacedParameterIsRecordedAnew) {
  Tensor w = torch::ones({3}, torch::requires_grad());
  const auto f = function([&](const Tensor& x) { return (w * x).detach(); });
  for (int i = 0; i < 4; ++i) f(torch::ones({3}));
  w.set_data(torch::full({3}, 7.f));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(f(torch::ones({3})), torch::full({3}, 7.f)));
}

TEST(Function, AnErrorOfACallIsLibTorchsAndTheNextCallWorks) {
  const auto f = function([](const Tensor& x, const Tensor& y) { return torch::nll_loss(x, y); });
  const Tensor x = torch::randn({3, 4}), y = torch::tensor({0, 1, 2});
  for (int i = 0; i < 3; ++i) f(x, y);
  const std::string error = what_of([&] { f(x, torch::tensor({0, 1, 9})); });
  EXPECT_THAT(error, HasSubstr("out of bounds"));
  EXPECT_THAT(error, HasSubstr("nll_loss"));
  EXPECT_TRUE(same_bits(f(x, y), torch::nll_loss(x, y)));
}

TEST(Function, ACheckThatGivesNothingIsMadeInEachReplay) {
  const auto f = function([](const Tensor& x) { return torch::linalg_inv(x); });
  for (int i = 0; i < 3; ++i) f(torch::eye(3));
  EXPECT_THAT(what_of([&] { f(torch::zeros({3, 3})); }), HasSubstr("singular"));
}

TEST(Function, ATensorKeptOutsideIsRefused) {
  Tensor average = torch::zeros({2});
  const auto f = function([&](const Tensor& x) { average = average * 0.9 + x; }, {.name = "average"});
  f(torch::ones({2}));
  EXPECT_THAT(what_of([&] {
                f(torch::ones({2}));
                f(torch::ones({2}));
              }),
              HasSubstr("average: "));
}

TEST(Function, ResultsOfEarlierCallsStay) {
  const auto f = function([](const Tensor& x) { return std::pair(x + 1, (x * 2).t()); });
  std::vector<std::pair<Tensor, Tensor>> results;
  for (int i = 0; i < 5; ++i) results.push_back(f(torch::full({2, 3}, static_cast<float>(i))));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(same_bits(results[static_cast<size_t>(i)].first, torch::full({2, 3}, static_cast<float>(i + 1))));
    EXPECT_TRUE(same_bits(results[static_cast<size_t>(i)].second, torch::full({3, 2}, static_cast<float>(2 * i))));
  }
}

TEST(Function, AnArgumentThatIsWrittenIsTheCallers) {
  const auto f = function([](Tensor x) { return x.add_(1).view({-1}); });
  for (int i = 0; i < 4; ++i) {
    const Tensor all = torch::zeros({4, 2}), x = all.narrow(0, i, 1);
    const int64_t version = all._version();
    const Tensor y = f(x);
    EXPECT_TRUE(same_bits(all[i], torch::ones({2}))) << i;
    EXPECT_GT(all._version(), version) << i;
    all.zero_();
    EXPECT_TRUE(same_bits(y, torch::zeros({2}))) << i;  // a view of the argument
  }
}

// LibTorch looks whether an argument is the very tensor that it writes before it looks for elements.
TEST(Function, TensorsWithoutElementsDoNotOverlapThatArePlainlyTwo) {
  const auto f = function([](const Tensor& x, const Tensor& rows) { return x.detach().scatter_add_(0, rows, x); });
  for (int call = 0; call < 4; ++call)
    EXPECT_EQ(f(torch::zeros({3, 0}), torch::zeros({3, 0}, torch::kLong)).size(0), 3);
}

TEST(Function, CanBeReadAndCounted) {
  const auto f = function([](const Tensor& x) { return x.relu().t(); }, {.name = "f"});
  const Tensor x = torch::ones({2, 3});
  EXPECT_THAT(what_of([&] { f.get_concrete_function(x); }), HasSubstr("not called"));
  f(x);
  EXPECT_EQ(f.pretty_printed_concrete_signatures(), "f(float32 [2, 3])\n");
  const std::string graph = f.get_concrete_function(x).graph().to_string();
  EXPECT_THAT(graph, HasSubstr("%0: argument 0 float32 [2, 3]\n%1 = aten::relu(%0)  float32 [2, 3]"));
}

// Weights that are read, then written; a branch; a name to quote.
TEST(Function, IsDrawn) {
  const Tensor w = torch::ones({3});
  const auto f = function(
      [&](const Tensor& x) {
        const Tensor y = cond(
            x.sum() > 0, [&] { return x * w; }, [&] { return -x; });
        w.add_(1);
        return y;
      },
      {.name = "a \"step\""});
  const Tensor x = torch::ones({2, 3});
  f(x);
  const std::string picture = to_graphviz(f.get_concrete_function(x).graph());
  EXPECT_THAT(picture, StartsWith("digraph \"a \\\"step\\\"\" {\n"));
  for (const char* part : {"v0 -> c0 [label=\"float32 [2, 3]\"];\n", "[shape=box, label=\"aten::sum\"];\n",
                           "[shape=ellipse, label=\"argument 0\"];\n", "[shape=ellipse, label=\"captured\"];\n",
                           "[shape=box, label=\"cond\"];\n", "label=\"aten::mul.Tensor\"];\n",
                           "[style=dashed, constraint=false];\n", "-> results [label=\"float32 [2, 3]\"];\n"})
    EXPECT_THAT(picture, HasSubstr(part));
  EXPECT_EQ(std::ranges::count(picture, '{'), std::ranges::count(picture, '}'));
}

TEST(Function, ThreadsMayCallAtOnce) {
  const Tensor w = torch::randn({16, 16});
  const auto f = [&](const Tensor& x) { return torch::tanh(x.matmul(w)).sum({0}); };
  const auto g = function(f);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const Tensor x = torch::full({4, 16}, static_cast<float>(t * 100 + i) / 400);
        wrong += !same_bits(g(x), f(x));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(g.tracing_count(), 2);
}

TEST(Function, ThreadsMayGoBackThroughCallsAtOnce) {
  const Tensor w = torch::randn({8, 8}).requires_grad_();
  const auto f = [&](const Tensor& x) { return torch::tanh(x.matmul(w)).sum(0); };
  const auto g = function(f);
  const auto slopes = [&](const auto& call, const Tensor& x) { return torch::autograd::grad({call(x).sum()}, {x, w}); };
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Tensor x = torch::full({4, 8}, static_cast<float>(t * 100 + i) / 400).requires_grad_();
        const auto made = slopes(g, x), wanted = slopes(f, x);
        wrong += !same_bits(made[0], wanted[0]) + !same_bits(made[1], wanted[1]);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(g.tracing_count(), 2);
}

TEST(Function, RunsEagerlyWhereAsked) {
  int runs = 0;
  const auto f = function([&](const Tensor& x) { return ++runs, x + 1; });
  run_functions_eagerly(true);
  for (int i = 0; i < 5; ++i) f(torch::ones({1}));
  run_functions_eagerly(false);
  EXPECT_EQ(runs, 5);
  EXPECT_EQ(f.tracing_count(), 0);
}

TEST(Function, FactoriesAreRecordedAfterAGuardOfTheView) {
  const auto f = [](const Tensor& x) {
    { const GlobalViewGuard guard; }
    return x + torch::rand({2});
  };
  const auto g = function(f);
  torch::manual_seed(1);
  std::vector<Tensor> wanted;
  for (int i = 0; i < 4; ++i) wanted.push_back(f(torch::ones({2})));
  torch::manual_seed(1);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(same_bits(g(torch::ones({2})), wanted[static_cast<size_t>(i)]));
}

TEST(Function, AHostStepRunsInEachReplay) {
  int steps = 0;
  const Tensor w = torch::zeros({2});
  const auto f = function([&](const Tensor& x) {
    host_step("count", {x * 2}, {w}, [&](at::ArrayRef<Tensor> inputs) {
      ++steps;
      w.copy_(inputs[0] + steps);
    });
    return w * 1;
  });
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(same_bits(f(torch::full({2}, static_cast<float>(i))), torch::full({2}, static_cast<float>(3 * i + 1))));
}

}  // namespace
}  // namespace tutti
