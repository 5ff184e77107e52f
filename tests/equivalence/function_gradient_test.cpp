// Gradients through calls of recorded functions, in graphs that go on around them, against plain calls.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "recorded_and_plain.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/function/function.h"

namespace tutti::recorded_and_plain::gradients_of_functions {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSteps = 7;

Tensor leaf(at::IntArrayRef sizes) { return torch::randn(sizes).requires_grad_(); }

// What one side has: captured variables and the function.
using Body = std::function<List(const List& weights, const List& arguments)>;
using Call = std::function<List(const List& arguments)>;
// What is around the function's calls in a step; it sets gradients.
using Around = std::function<List(const Call& f, const List& weights, const List& leaves, int step)>;

struct Options {
  at::IntArrayRef sizes = {4, 4};
  int recordings = 2;
  bool keep_gradients = false;
};

List gradients_of(const List& tensors) {
  List found;
  for (const Tensor& tensor : tensors)
    found.push_back(tensor.grad().defined() ? tensor.grad().clone() : torch::full({}, -77.));
  return found;
}

// Steps as they are and with a function, on variables of their own: results and gradients are the same bits.
void compare_steps(const Body& body, const Around& around, const Options& options = {}) {
  torch::manual_seed(11);
  const List first{leaf(options.sizes), leaf(options.sizes)}, outer{leaf(options.sizes), leaf(options.sizes)};
  struct Side {
    List weights, leaves;
  };
  const auto copy = [](const List& all) {
    List made;
    for (const Tensor& tensor : all) made.push_back(tensor.detach().clone().requires_grad_());
    return made;
  };
  Side plain{copy(first), copy(outer)}, own{copy(first), copy(outer)};
  const auto recorded = function([&](const List& arguments) { return body(own.weights, arguments); }, {.name = "f"});
  for (int step = 0; step < kSteps; ++step) {
    const auto run = [&](const Side& side, const Call& f) {
      torch::manual_seed(100 + step);
      List results = around(f, side.weights, side.leaves, step);
      for (const List* const all : {&side.weights, &side.leaves})
        for (const Tensor& gradient : gradients_of(*all)) results.push_back(gradient);
      const torch::NoGradGuard no_grad;
      for (const List* const all : {&side.weights, &side.leaves})
        for (Tensor tensor : *all) {
          if (tensor.grad().defined()) tensor.sub_(tensor.grad(), 0.125);
          if (!options.keep_gradients) tensor.mutable_grad().reset();
        }
      return results;
    };
    const List wanted = run(plain, [&](const List& arguments) { return body(plain.weights, arguments); });
    const List seen = run(own, [&](const List& arguments) { return recorded(arguments); });
    expect_same(seen, wanted, "step " + std::to_string(step) + ", value");
  }
  EXPECT_LE(recorded.tracing_count(), options.recordings);
}

const Body kLayer = [](const List& w, const List& x) {
  return List{(x[0].matmul(w[0]) + w[1][0]).tanh() * x[0].sigmoid()};
};

TEST(FunctionGradient, ReachesVariablesAndArguments) {
  compare_steps(kLayer, [](const Call& f, const List&, const List& leaves, int) {
    const List y = f({leaves[0]});
    (y[0] * leaves[1]).sum().backward();
    return y;
  });
}

TEST(FunctionGradient, GoesOnThroughAnArgumentsGraph) {
  compare_steps(kLayer, [](const Call& f, const List& w, const List& leaves, int) {
    const Tensor x = (leaves[0] * leaves[1]).cos();
    const List y = f({x});
    (y[0].exp() + x * w[0]).mean().backward();  // all are used outside, too
    return y;
  });
}

TEST(FunctionGradient, AddsUpInGrad) {
  compare_steps(kLayer,
                [](const Call& f, const List&, const List& leaves, int) {
                  const List y = f({leaves[0]});
                  y[0].sum().backward();
                  return y;
                },
                {.recordings = 3, .keep_gradients = true});
}

TEST(FunctionGradient, OfTwoBackwardPassesInEachStepIsRecordedOnce) {
  compare_steps(kLayer,
                [](const Call& f, const List&, const List& leaves, int) {
                  f({leaves[0]})[0].sum().backward();
                  f({leaves[1]})[0].sum().backward();
                  return List{};
                },
                {.recordings = 3});
}

TEST(FunctionGradient, CallsThatAreAliveAtOnceKeepTheirOwnValues) {
  compare_steps(kLayer, [](const Call& f, const List&, const List& leaves, int) {
    Tensor h = leaves[0], sum = torch::zeros({});
    for (int i = 0; i < 5; ++i) {
      h = f({h * leaves[1]})[0];
      sum = sum + h.square().mean();
    }
    sum.backward();
    return List{h, sum};
  });
}

TEST(FunctionGradient, OfSomeResultsAndOfGradientsOfAllKinds) {
  const Body body = [](const List& w, const List& x) {
    const Tensor a = x[0].matmul(w[0]).relu(), b = (x[1] + w[1]).exp();
    return List{a, b.sum(), a.argmax(1), b.detach(), a.t() * b};
  };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int step) {
    const List y = f({leaves[0], leaves[1] * 0.5});
    switch (step % 3) {
      case 0: y[1].backward(); break;
      case 1: (y[0].t() * y[4]).sum(0)[1].backward(); break;
      default: torch::autograd::backward({y[0], y[4]}, {torch::ones({4, 4}).t(), y[3].t()});
    }
    return y;
  });
}

TEST(FunctionGradient, OfSomeInputsAloneIsComputedWhereItIsAskedFor) {
  compare_steps(kLayer, [](const Call& f, const List& w, const List& leaves, int step) {
    const Tensor loss = f({leaves[0]})[0].sum();
    List found = step % 2 ? torch::autograd::grad({loss}, {leaves[0]}) : torch::autograd::grad({loss}, {w[1], w[0]});
    return found;
  });
}

TEST(FunctionGradient, IsKeptForASecondBackwardPass) {
  compare_steps(kLayer, [](const Call& f, const List&, const List& leaves, int) {
    const Tensor loss = f({leaves[0]})[0].square().sum();
    loss.backward({}, /*retain_graph=*/true);
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    EXPECT_THAT(what_of([&] { loss.backward(); }), HasSubstr("backward through the graph a second time"));
    return List{loss};
  });
}

TEST(FunctionGradient, DropoutsMaskIsThatOfTheCall) {
  torch::nn::Dropout dropout(0.5);
  const Body body = [&](const List& w, const List& x) { return List{dropout->forward(x[0].matmul(w[0]))}; };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int) {
    const List a = f({leaves[0]}), b = f({leaves[1]});
    (a[0] * b[0]).sum().backward();
    return List{a[0], b[0], torch::rand({2})};
  });
}

TEST(FunctionGradient, OfOneTensorInTwoArgumentsAddsUp) {
  const Body body = [](const List& w, const List& x) { return List{x[0] * x[1] + w[0] * x[0]}; };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int) {
    const List y = f({leaves[0], leaves[0]});
    y[0].sum().backward();
    return y;
  });
}

// Both get the gradient that came in, and must not share its memory.
TEST(FunctionGradient, ThatGoesThroughAsItIsStaysEachOnesOwn) {
  const Body body = [](const List&, const List& x) { return List{x[0] + x[1], x[0].view({-1})}; };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int) {
    const List y = f({leaves[0], leaves[1]});
    y[0].backward(torch::rand({4, 4}), /*retain_graph=*/true);
    leaves[0].mutable_grad().mul_(2);
    y[1].sum().backward();
    return y;
  });
}

TEST(FunctionGradient, ThatIsAViewOfAnothersIsNobodyElsesMemory) {
  const Body body = [](const List& w, const List& x) { return List{w[0] + x[0].t(), x[0].t()}; };
  compare_steps(body,
                [](const Call& f, const List&, const List& leaves, int) {
                  const List y = f({f({leaves[0]})[1]});
                  y[0].backward(torch::rand({4, 4}));
                  return y;
                },
                {.recordings = 4, .keep_gradients = true});  // of an argument and of its t()
}

TEST(FunctionGradient, OfVariablesThatAreUsedOutsideToo) {
  compare_steps(kLayer, [](const Call& f, const List& w, const List& leaves, int) {
    const List y = f({leaves[0] + w[0]});
    (y[0].matmul(w[0]) + w[1]).sin().sum().backward();
    return y;
  });
}

TEST(FunctionGradient, OfAResultThatIsAnArgumentOrAViewOfOne) {
  const Body body = [](const List& w, const List& x) { return List{x[0], x[1].t(), x[1].narrow(0, 1, 2) * w[0][0]}; };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int step) {
    const Tensor x = leaves[1] * 2;
    const List y = f({leaves[0], x});
    if (step > 1) {
      EXPECT_TRUE(y[0].is_same(leaves[0]));
    }
    (y[0] * y[1] * 3).sum().backward({}, true);
    (y[2].exp().sum() + x.sum()).backward();
    return y;
  });
}

TEST(FunctionGradient, OfAResultThatIsAVariable) {
  const Body body = [](const List& w, const List& x) { return List{w[0], w[1].t(), x[0] * w[1]}; };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int) {
    const List y = f({leaves[0]});
    (y[0] * y[1] + y[2]).square().sum().backward();
    return y;
  });
}

TEST(FunctionGradient, WritesInPlaceInTheFunctionAreFollowed) {
  const Body body = [](const List& w, const List& x) {
    Tensor h = x[0] * w[0];
    h.mul_(w[1]);
    h.narrow(0, 0, 2).copy_(x[0].narrow(0, 2, 2).exp());
    return List{h};
  };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int) {
    const List y = f({leaves[0]});
    y[0].add_(leaves[1]).mul_(2);  // of a result, outside
    y[0].sum().backward();
    return y;
  });
}

TEST(FunctionGradient, EndsAtDetachAndWhereNoneIsRecorded) {
  const Body body = [](const List& w, const List& x) {
    Tensor mean;
    {
      const torch::NoGradGuard no_grad;
      mean = (x[0] * w[1]).mean();
    }
    return List{x[0] * w[0].detach() - mean, mean};
  };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int) {
    const List y = f({leaves[0]});
    EXPECT_FALSE(y[1].requires_grad());
    y[0].sum().backward();
    return y;
  });
}

TEST(FunctionGradient, OfAPenaltyOnGradientsInside) {
  const Body body = [](const List& w, const List& x) {
    const Tensor own = x[0].detach().requires_grad_();
    const Tensor score = (own.matmul(w[0]).tanh() * w[1]).sum();
    const Tensor slope = torch::autograd::grad({score}, {own}, {}, true, /*create_graph=*/true)[0];
    return List{(slope.square().sum() - 1).square()};
  };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int) {
    const List y = f({leaves[0].detach()});
    y[0].backward();
    return y;
  });
}

TEST(FunctionGradient, ThroughATensorOutsideThatHasAGraph) {
  const Tensor w = leaf({3}), x = leaf({3});
  const Tensor h = w * 3;
  const auto f = function([&](const Tensor& x) { return x * h; });
  for (int i = 0; i < 5; ++i) {
    const auto plain = torch::autograd::grad({(x * h).sum()}, {w, x}, {}, true);
    const auto made = torch::autograd::grad({f(x).sum()}, {w, x}, {}, true);
    EXPECT_TRUE(same_bits(made[0], plain[0])) << i;
    EXPECT_TRUE(same_bits(made[1], plain[1])) << i;
  }
}

TEST(FunctionGradient, PassesHooksOnceEach) {
  int on_variable = 0, on_argument = 0, on_result = 0;
  const Body body = [](const List& w, const List& x) {
    const Tensor h = x[0] * w[0];
    h.register_hook([](const Tensor& gradient) { return gradient * 3; });
    return List{h.sin()};
  };
  compare_steps(body, [&](const Call& f, const List& w, const List& leaves, int step) {
    if (step == 0)
      w[0].register_hook([&](const Tensor& gradient) {
        ++on_variable;
        return gradient * 2;
      });
    const Tensor x = leaves[0] * 2;
    x.register_hook([&](const Tensor& gradient) {
      ++on_argument;
      return gradient + 1;
    });
    const List y = f({x});
    y[0].register_hook([&](const Tensor& gradient) {
      ++on_result;
      return gradient * 0.5;
    });
    y[0].sum().backward();
    return y;
  });
  EXPECT_EQ(on_variable, 2 * kSteps);
  EXPECT_EQ(on_argument, 2 * kSteps);
  EXPECT_EQ(on_result, 2 * kSteps);
}

TEST(FunctionGradient, AChangedValueIsLibTorchsError) {
  const Tensor w = leaf({3});
  const auto f = function([&](const Tensor& x) { return (x * w).exp(); });
  for (int i = 0; i < 5; ++i) {
    const auto error_after = [&](const std::function<void(Tensor & x, Tensor & y)>& change) {
      Tensor x = leaf({3}) * 1, y = f(x);
      const Tensor loss = y.sum();
      {
        const torch::NoGradGuard no_grad;
        change(x, y);
      }
      return what_of([&] { loss.backward(); });
    };
    const auto is_told = HasSubstr("has been modified by an inplace operation");
    EXPECT_THAT(error_after([](Tensor& x, Tensor&) { x.add_(1); }), is_told) << i;
    EXPECT_THAT(error_after([](Tensor&, Tensor& y) { y.add_(1); }), is_told) << i;
    EXPECT_THAT(error_after([&](Tensor&, Tensor&) { w.mul_(0.5); }), is_told) << i;
    EXPECT_EQ(error_after([&](Tensor&, Tensor&) {}), "no error") << i;
  }
}

TEST(FunctionGradient, AValueThatTheFunctionChangesIsLibTorchsError) {
  const auto f = function([&](const Tensor& x) {
    Tensor y = x.exp();
    Tensor z = y * 2;
    y.add_(1);
    return y + z;
  });
  for (int i = 0; i < 5; ++i) {
    const Tensor y = f(leaf({3}));
    EXPECT_THAT(what_of([&] { y.sum().backward(); }), HasSubstr("has been modified by an inplace operation")) << i;
  }
}

TEST(FunctionGradient, OfAnErrorInsideIsTheCalls) {
  const Tensor w = leaf({4, 4});
  const auto f = function([&](const Tensor& x, const Tensor& y) { return torch::nll_loss(x.matmul(w), y); });
  const Tensor right = torch::tensor({0, 1}), wrong = torch::tensor({0, 9});
  for (int i = 0; i < 6; ++i) {
    const Tensor x = leaf({2, 4});
    if (i >= 3) {
      EXPECT_THAT(what_of([&] { f(x, wrong); }), HasSubstr("out of bounds"));
    }
    const auto made = torch::autograd::grad({f(x, right)}, {x, w});
    const auto wanted = torch::autograd::grad({torch::nll_loss(x.matmul(w), right)}, {x, w});
    for (size_t k = 0; k < 2; ++k) EXPECT_TRUE(same_bits(made[k], wanted[k])) << i;
  }
}

TEST(FunctionGradient, ASecondDerivativeIsRefusedByName) {
  const auto f = function([](const Tensor& x) { return x.pow(3); }, {.name = "cube"});
  for (int i = 0; i < 5; ++i) {
    const Tensor x = leaf({3});
    const Tensor slope = torch::autograd::grad({f(x).sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    EXPECT_TRUE(same_bits(slope, torch::autograd::grad({x.pow(3).sum()}, {x})[0])) << i;
    EXPECT_THAT(what_of([&] { slope.sum().backward(); }),
                AllOf(HasSubstr("cube: a second derivative"), HasSubstr("run_functions_eagerly")));
  }
}

TEST(FunctionGradient, EachPatternOfNeedsIsARecordingOfItsOwn) {
  const auto f = function([](const Tensor& x, const Tensor& y) { return (x * y).tanh(); });
  for (int i = 0; i < 4; ++i)
    for (const unsigned needs : {0U, 1U, 2U, 3U}) {
      const Tensor x = torch::randn({3}).requires_grad_(needs & 1U), y = torch::randn({3}).requires_grad_(needs & 2U);
      const Tensor made = f(x, y), wanted = (x * y).tanh();
      EXPECT_EQ(made.requires_grad(), needs != 0);
      if (!needs) continue;
      made.sum().backward();
      const Tensor seen_x = x.grad(), seen_y = y.grad();
      x.mutable_grad().reset();
      y.mutable_grad().reset();
      wanted.sum().backward();
      EXPECT_EQ(seen_x.defined(), x.grad().defined());
      EXPECT_EQ(seen_y.defined(), y.grad().defined());
      if (seen_x.defined()) {
        EXPECT_TRUE(same_bits(seen_x, x.grad())) << i;
      }
      if (seen_y.defined()) {
        EXPECT_TRUE(same_bits(seen_y, y.grad())) << i;
      }
    }
  EXPECT_EQ(f.tracing_count(), 8);
}

TEST(FunctionGradient, FrozenAndThawedVariablesAreSeen) {
  Tensor w = leaf({3});
  const auto f = function([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < 20; ++i) {
    w.set_requires_grad(i / 5 % 2 == 0);
    w.mutable_grad().reset();
    const Tensor x = leaf({3}), y = f(x);
    y.sum().backward();
    EXPECT_EQ(w.grad().defined(), w.requires_grad()) << i;
    EXPECT_TRUE(same_bits(x.grad(), w)) << i;
    if (w.grad().defined()) {
      EXPECT_TRUE(same_bits(w.grad(), x)) << i;
    }
  }
}

TEST(FunctionGradient, CostsNothingWhereNoneIsRecorded) {
  const Tensor w = leaf({3}), x = leaf({3});
  const auto f = function([&](const Tensor& x) { return (x * w).exp(); });
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < 5; ++i) {
    const Tensor y = f(x);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(same_bits(y, (x * w).exp()));
  }
}

TEST(FunctionGradient, OfAGraphThatWasUsedInsideIsLibTorchsError) {
  const Tensor w = leaf({3});
  const auto f = function([&](const Tensor& x) {
    const Tensor loss = (x * w).exp().sum();
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 6; ++i) {
    const Tensor loss = f(torch::ones({3}));
    EXPECT_TRUE(loss.requires_grad());
    EXPECT_THAT(what_of([&] { loss.backward(); }), HasSubstr("backward through the graph a second time")) << i;
  }
}

TEST(FunctionGradient, WhatCannotGoThroughIsRefusedByName) {
  const Tensor w = leaf({3});
  const auto refusal = [&](const std::function<Tensor(Tensor x)>& f, const Tensor& x) {
    return what_of([&] { function(f, {.name = "f"})(x); });
  };
  const Tensor inner = leaf({3}) * 1;
  EXPECT_THAT(refusal([](Tensor x) { return x.mul_(2); }, inner),
              AllOf(HasSubstr("f: the function writes in place"), HasSubstr("argument 0, of shape [3]")));
  EXPECT_THAT(refusal([&](Tensor x) { return x.mul_(w); }, torch::ones({3})), HasSubstr("writes in place"));
  EXPECT_THAT(refusal([](Tensor x) { return x.mul_(2); }, leaf({3})), HasSubstr("a leaf Variable that requires grad"));
  EXPECT_THAT(refusal(
                  [](Tensor x) {
                    x.sum().backward();
                    return x * 2;
                  },
                  leaf({3})),
              HasSubstr("leaves a gradient in grad() of its argument 0"));
  EXPECT_THAT(refusal(
                  [](Tensor x) {
                    x.sum().backward();
                    return x * 2;
                  },
                  leaf({3}) * 2),
              HasSubstr("backward() in the function goes on into the graph of an argument"));
  EXPECT_THAT(refusal([](Tensor x) { return x.requires_grad_() * 2; }, torch::ones({3})),
              HasSubstr("requires_grad_() of argument 0"));
}

TEST(FunctionGradient, AHookThatChangesANumberIsNamed) {
  double factor = 1;
  const auto f = function([&](const Tensor& x) {
    const Tensor y = x * 2;
    y.register_hook([&](const Tensor& gradient) { return gradient * (factor *= 0.5); });
    return y.exp();
  });
  const auto step = [&] { f(leaf({3})).sum().backward(); };
  step();
  EXPECT_THAT(what_of(step), AllOf(HasSubstr("two recordings of its backward pass differ"), HasSubstr("0.25")));
}

TEST(FunctionGradient, AStateKeptOutsideWithItsGraphIsRefused) {
  const Tensor w = leaf({3});
  Tensor last;
  const auto f = function([&](const Tensor& x) {
    last = (x * w).tanh();
    return last * 2;
  });
  f(torch::ones({3})).sum().backward();
  EXPECT_THAT(what_of([&] {
                for (int i = 0; i < 2; ++i) f(torch::ones({3})).sum().backward();
              }),
              HasSubstr("something outside keeps a tensor that the function made"));
}

TEST(FunctionGradient, AStateOutsideThatKeepsItsGraphIsRefused) {
  const Tensor w = leaf({3});
  const auto refusal = [&](const Tensor& state, const std::function<void(Tensor state)>& write) {
    const auto f = function(
        [&] {
          write(state);
          return state * 2;
        },
        {.name = "f"});
    return what_of(f);
  };
  const auto is_said = AllOf(HasSubstr("f: the function writes in place"), HasSubstr("of shape [2, 3] from outside"),
                             HasSubstr("detach_() it at the end"));
  EXPECT_THAT(refusal(torch::ones({2, 3}), [&](Tensor state) { state.mul_(0.5).add_(w); }), is_said);
  EXPECT_THAT(refusal(torch::ones({2, 3}), [&](Tensor state) { state[1].add_(w); }), is_said);
  EXPECT_THAT(
      refusal(torch::ones({2, 3}), [&](Tensor state) { torch::_foreach_add_(std::vector{state}, std::vector{w}); }),
      is_said);
  EXPECT_THAT(refusal(torch::ones({2, 3}) * w, [&](Tensor state) { state.mul_(2); }), is_said);
  const Mesh mesh({{"x", 2}}, configure_logical_cpus(2), {.merge = false});
  const Tensor w_on_mesh = distribute_tensor(w.detach(), Layout::replicated(mesh, 1)).requires_grad_();
  const Tensor on_mesh = distribute_tensor(torch::ones({2, 3}), Layout({"x", kUnsharded}, mesh));
  EXPECT_THAT(refusal(on_mesh, [&](Tensor state) { state.add_(w_on_mesh); }), is_said);
}

TEST(FunctionGradient, OfAStateOutsideThatIsDetachedAtTheEnd) {
  const Tensor w = leaf({3});
  const auto step_of = [&](const Tensor& x, Tensor state) {
    state.mul_(0.5).add_(x * w);
    const Tensor gradient = torch::autograd::grad({(state.tanh() * w).sum()}, {w})[0];
    state.detach_();
    return gradient;
  };
  const Tensor plain = torch::zeros({3}), own = torch::zeros({3});
  const auto f = function([&](const Tensor& x) { return step_of(x, own); });
  for (int i = 0; i < 6; ++i) {
    const Tensor x = torch::randn({3}), wanted = step_of(x, plain);
    EXPECT_TRUE(same_bits(f(x), wanted)) << i;
    EXPECT_TRUE(same_bits(own, plain)) << i;
  }
  EXPECT_EQ(f.tracing_count(), 2);
}

TEST(FunctionGradient, AFunctionInAFunctionIsAPartOfIt) {
  const auto inner = function([](const Tensor& x) { return x.tanh() * x; });
  const Body body = [&](const List& w, const List& x) { return List{inner(x[0].matmul(w[0])) + inner(w[1])}; };
  compare_steps(body, [](const Call& f, const List&, const List& leaves, int) {
    const List y = f({leaves[0]});
    y[0].sum().backward();
    return y;
  });
}

TEST(FunctionGradient, ABackwardPassInsideAFunctionGoesThroughAnothersCall) {
  const Tensor w = leaf({3}), x = leaf({3});
  const auto f = function([&](const Tensor& x) { return (x * w).exp(); });
  for (int i = 0; i < 4; ++i) {
    const Tensor y = f(x);
    const auto descend = function([&] { return torch::autograd::grad({y.sum()}, {w})[0]; });
    EXPECT_TRUE(same_bits(descend(), torch::autograd::grad({(x * w).exp().sum()}, {w})[0])) << i;
  }
}

TEST(FunctionGradient, TrainsAModuleAsPlainCallsDo) {
  struct Net {
    torch::nn::Sequential layers{torch::nn::Linear(12, 16), torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                                 torch::nn::Dropout(0.3), torch::nn::Linear(16, 4)};
    torch::optim::Adam optimizer{layers->parameters(), torch::optim::AdamOptions(0.01)};
  };
  torch::manual_seed(1);
  Net plain;
  torch::manual_seed(1);
  Net own;
  const auto forward = function([&](const Tensor& x) { return own.layers->forward(x); });
  const auto train = [](Net& net, const auto& call, const Tensor& x, const Tensor& y, int step) {
    torch::manual_seed(step);
    net.optimizer.zero_grad();
    const Tensor loss = torch::nll_loss(torch::log_softmax(call(x), 1), y);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(net.layers->parameters(), 1.0);
    net.optimizer.step();
    return loss;
  };
  for (int step = 0; step < 15; ++step) {
    const Tensor x = torch::randn({8, 12}), y = torch::randint(4, {8});
    const Tensor wanted = train(
        plain, [&](const Tensor& batch) { return plain.layers->forward(batch); }, x, y, step);
    EXPECT_TRUE(same_bits(train(own, forward, x, y, step), wanted)) << step;
    for (size_t p = 0; p < plain.layers->parameters().size(); ++p)
      EXPECT_TRUE(same_bits(own.layers->parameters()[p], plain.layers->parameters()[p])) << step << ' ' << p;
  }
  EXPECT_EQ(forward.tracing_count(), 2);
}

TEST(FunctionGradient, IsPlainWhereTheFunctionOrItsBackwardPassCannotBeRecorded) {
  const Tensor w = leaf({3});
  const auto read_forward = [&](const Tensor& x) { return x * w * (w * 2).abs().sum().item<float>(); };
  const auto read_backward = [&](const Tensor& x) {
    const Tensor y = x * w;
    y.register_hook([](const Tensor& gradient) { return gradient * gradient.abs().sum().item<float>(); });
    return y.view({3, 1});
  };
  const auto compare = [&](const auto& f) {
    std::vector<std::string> reasons;
    const auto recorded = function(f, {.if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
    for (int i = 0; i < 5; ++i) {
      const Tensor x = torch::randn({3}), own = x.clone().requires_grad_();
      const auto slope = [&](const Tensor& y) { return torch::autograd::grad({y.square().sum()}, {w})[0]; };
      EXPECT_TRUE(same_bits(slope(recorded(x)), slope(f(x)))) << i;
      EXPECT_TRUE(same_bits(slope(recorded(own)), slope(f(x)))) << i;
    }
    return reasons;
  };
  EXPECT_THAT(compare(read_forward), testing::ElementsAre(HasSubstr("reads a number out of a tensor")));
  const auto reasons = compare(read_backward);
  ASSERT_FALSE(reasons.empty());
  EXPECT_THAT(reasons[0], HasSubstr("backward pass: aten::_local_scalar_dense reads a number"));
}

TEST(FunctionGradient, OfRunInAFunctionSaysSoWhenItIsAskedFor) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Tensor w = strategy.build([] { return torch::ones({3}).requires_grad_(); });
  const auto f = function([&](const Tensor& x) { return (w * x).sum(); }, {.name = "f"});
  for (int i = 0; i < 4; ++i) {
    const Tensor y = f(torch::ones({3}));
    EXPECT_THAT(what_of([&] { y.backward(); }), HasSubstr("f: the gradient of the result"));
  }
  EXPECT_THAT(what_of([&] { function([](const Tensor& v) { return v * 2; }, {.name = "g"})(w); }),
              HasSubstr("g: an argument of shape [3], a mesh tensor, requires a gradient"));
}

// LibTorch finds fault with such a view where somebody asks for its place in the graph.
TEST(FunctionGradient, AViewThatWasSpoiltIsAnErrorForWhoeverAsksForItsGradient) {
  const auto f = [](const Tensor& x) {
    const List parts = x.split(2);
    const torch::NoGradGuard no_grad;
    parts[0].mul_(2);
    return parts;
  };
  const auto g = function(f);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = leaf({4}), y = x.detach().clone().requires_grad_();
    const List made = g(x), wanted = f(y);
    expect_same(made, wanted, "parts");
    for (size_t part = 0; part < 2; ++part) {
      const std::string error = what_of([&] { wanted[part].sum().backward(); });
      EXPECT_THAT(error, HasSubstr("is a view and its base or another view")) << i;
      EXPECT_THAT(what_of([&] { made[part].sum().backward(); }), HasSubstr(error.substr(0, error.find('.')))) << i;
    }
  }
  EXPECT_EQ(g.tracing_count(), 2);
}

}  // namespace
}  // namespace tutti::recorded_and_plain::gradients_of_functions
