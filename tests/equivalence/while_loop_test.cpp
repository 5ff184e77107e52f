// while_loop in recorded functions against the same program in plain C++, bit for bit.
#include "tutti/function/control_flow.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "recorded_and_plain.h"
#include "tutti/core/error.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/function/function.h"
#include "tutti/function/host_call.h"
#include "tutti/function/program.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::recorded_and_plain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A number of iterations, 0 to 3, as the flag and the values say.
Tensor count_of(const Tensor& flag, const Tensor& x) {
  return flag.to(torch::kLong) * 2 + (x.sum() > 0).to(torch::kLong);
}

TEST(WhileLoop, GoesOnAsLongAsItsConditionSays) {
  compare_all({}, {torch::randn({3})}, [](List&, const List& a) {
    const Tensor n = count_of(a[0], a[1]), factor = a[1] * 2;
    const auto [i, x] = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                                   [&](const Tensor& i, const Tensor& x) { return std::tuple(i + 1, x * factor + 1); },
                                   std::tuple(torch::zeros({}, torch::kLong), a[1]));
    return List{i, x, x + 1};
  });
}

TEST(WhileLoop, OutsideOfARecordingIsAWhile) {
  int bodies = 0;
  const Tensor w = torch::full({}, 3.0, torch::requires_grad());
  const Tensor x = while_loop([](const Tensor& x) { return x < 50; }, [&](const Tensor& x) { return ++bodies, x * w; },
                              torch::ones({}, torch::kDouble).to(torch::kFloat));
  EXPECT_EQ(x.item<float>(), 81);
  EXPECT_EQ(bodies, 4);
  x.backward();
  EXPECT_EQ(w.grad().item<float>(), 4 * 27);
}

TEST(WhileLoop, MayBeLong) {
  const auto power = [](const Tensor& n) {
    const auto [i, x] = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                                   [](const Tensor& i, const Tensor& x) { return std::tuple(i + 1, (x * 1.5).sin()); },
                                   std::tuple(torch::zeros({}, torch::kLong), torch::ones({4})));
    return x;
  };
  const auto recorded = function(power);
  for (const int64_t n : {300, 1000, 0, 5000, 1, 2})
    EXPECT_TRUE(same_bits(recorded(torch::tensor(n)), power(torch::tensor(n)))) << n;
  EXPECT_LE(recorded.get_concrete_function(torch::tensor(int64_t{1})).graph().buffers.size(), 10U);
}

TEST(WhileLoop, EndsAfterTheMostIterations) {
  for (const int64_t most : {0, 1, 3, 100}) {
    const auto doubled = [=](const Tensor& x) {
      return while_loop([](const Tensor& x) { return x.sum() < 100; }, [](const Tensor& x) { return x * 2; }, x,
                        {.maximum_iterations = most});
    };
    const auto recorded = function(doubled);
    for (int i = 0; i < 6; ++i) {
      const Tensor x = torch::ones({2}) * (1 + 20 * (i % 3));
      EXPECT_TRUE(same_bits(recorded(x), doubled(x))) << most << ", call " << i;
    }
  }
}

TEST(WhileLoop, MayHaveNoState) {
  compare_all({torch::zeros({2})}, {torch::ones({2})}, [](List& s, const List& a) {
    while_loop([&](const List&) { return (s[0] < 3).all().logical_and(a[0]); },
               [&](const List& none) { return s[0].add_(a[1]), none; }, List{}, {.maximum_iterations = 2});
    return List{s[0] * 2};
  });
}

TEST(WhileLoop, MayWriteToItsStateAndSwapIt) {
  compare_all({torch::zeros({3})}, {torch::randn({3}), torch::randn({3})}, [](List& s, const List& a) {
    const Tensor n = count_of(a[0], a[1]);
    const auto [i, x, y, z] =
        while_loop([&](const Tensor& i, const Tensor&, const Tensor&, const Tensor&) { return i < n; },
                   [&](const Tensor& i, const Tensor& x, const Tensor& y, const Tensor& z) {
                     i.add_(1);
                     x.narrow(0, 0, 2).sub_(y.narrow(0, 1, 2));
                     s[0].add_(x);
                     return std::tuple(i, y, x, z.flip(0));
                   },
                   std::tuple(torch::zeros({}, torch::kLong), a[1], a[2], s[0]));
    a[1].mul_(2);
    return List{i, x, y, z};
  });
}

TEST(WhileLoop, TakesViewsAndStructuresAsState) {
  compare_all({}, {torch::randn({4, 2})}, [](List&, const List& a) {
    const Tensor complex = torch::view_as_complex(a[1]), n = count_of(a[0], a[1]);
    using Named = std::map<std::string, std::vector<Tensor>>;
    const Named last = while_loop(
        [&](const Named& now) { return now.at("i")[0] < n; },
        [&](const Named& now) {
          return Named{{"i", {now.at("i")[0] + 1}}, {"x", {now.at("x")[1].conj(), now.at("x")[0].conj() * 2}}};
        },
        Named{{"i", {torch::zeros({}, torch::kLong)}}, {"x", {complex.conj(), complex.flip(0)}}});
    return List{last.at("x")[0], last.at("x")[1], torch::view_as_real(last.at("x")[0].resolve_conj())};
  });
}

TEST(WhileLoop, WritesDrawsAndCallsInEachIteration) {
  int64_t own_calls = 0, plain_calls = 0;
  bool record = false;
  const Step step = [&](List& s, const List& a) {
    const Tensor n = count_of(a[0], a[1]);
    int64_t& calls = record ? own_calls : plain_calls;
    const Tensor i = while_loop([&](const Tensor& i) { return i < n; },
                                [&](const Tensor& i) {
                                  s[0].add_(torch::rand({3})).mul_(a[1]);
                                  host_call([&](const Tensor&) { ++calls; }, s[0]);
                                  return i + 1;
                                },
                                torch::zeros({}, torch::kLong));
    return List{i, s[0] * 2};
  };
  List plain_state{torch::zeros({3})}, own_state{torch::zeros({3})};
  const auto recorded = function([&](const List& a) { return step(own_state, a); });
  for (int call = 0; call < kCalls; ++call) {
    const List arguments{torch::tensor(call % 2 == 1), torch::randn({3})};
    torch::manual_seed(call);
    record = false;
    const List wanted = step(plain_state, arguments);
    torch::manual_seed(call);
    record = true;
    expect_same(recorded(arguments), wanted, "call " + std::to_string(call));
    expect_same(own_state, plain_state, "state");
    EXPECT_EQ(own_calls, plain_calls);
  }
  EXPECT_EQ(recorded.tracing_count(), 2);
}

TEST(WhileLoop, InCondAndCondInIt) {
  compare_all({torch::ones({3})}, {torch::randn({3})}, [](List& s, const List& a) {
    const Tensor limit = a[1].abs().sum() * 4;
    return List{cond(
        a[0],
        [&] {
          return while_loop([&](const Tensor& x) { return x.abs().sum() < limit; },
                            [&](const Tensor& x) {
                              const Tensor y = cond(
                                  x.sum() > 0, [&] { return x * 1.5 + torch::rand({3}); },
                                  [&] { return x * 2 - s[0].add_(0.25); });
                              return while_loop([&](const Tensor& z) { return z.abs().sum() < 1; },
                                                [](const Tensor& z) { return z * 3 + 0.1; }, y);
                            },
                            s[0]);
        },
        [&] { return s[0].mul_(0.75) + 1; })};
  });
}

TEST(WhileLoop, OfABranchThatIsNotTakenEnds) {
  compare({}, {torch::ones({2})}, 0b001001000U, [](List&, const List& a) {
    return List{cond(
        a[0],
        [&] {
          return while_loop([&](const Tensor& x) { return (x.sum() < 100).logical_or(a[0].logical_not()); },
                            [](const Tensor& x) { return x * 2; }, a[1]);
        },
        [&] { return a[1].neg(); })};
  });
}

TEST(WhileLoop, ComputesGradientsInItsBody) {
  compare_all({torch::randn({3}, torch::requires_grad())}, {torch::randn({3})}, [](List& s, const List& a) {
    const Tensor n = count_of(a[0], a[1]);
    const auto [i, loss] = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                                      [&](const Tensor& i, const Tensor&) {
                                        const Tensor loss = (s[0] * a[1] - 1).square().sum();
                                        const Tensor gradient = torch::autograd::grad({loss}, {s[0]})[0];
                                        const torch::NoGradGuard no_grad;
                                        s[0].sub_(0.1 * gradient);
                                        return std::tuple(i + 1, loss.detach());
                                      },
                                      std::tuple(torch::zeros({}, torch::kLong), torch::zeros({})));
    return List{i, loss};
  });
}

TEST(WhileLoop, ThrowsWhatItsBodyThrows) {
  const Tensor state = torch::zeros({});
  const auto recorded = function([&](const Tensor& n, const Tensor& table) {
    return while_loop([&](const Tensor& i) { return i < n; },
                      [&](const Tensor& i) {
                        state.add_(table.index_select(0, i.view({1})).sum());
                        return i + 1;
                      },
                      torch::zeros({}, torch::kLong));
  });
  const Tensor table = torch::arange(4.F);
  for (int i = 0; i < 3; ++i) recorded(torch::tensor(int64_t{2}), table);
  EXPECT_EQ(state.item<float>(), 3);
  EXPECT_THAT(what_of([&] { recorded(torch::tensor(int64_t{9}), table); }), HasSubstr("index out of range"));
  EXPECT_EQ(state.item<float>(), 3 + 6);
  EXPECT_EQ(recorded(torch::tensor(int64_t{3}), table).item<int64_t>(), 3);
}

// What a recording of a loop from `state` says, which has to run once.
template <class Body, class State>
std::string loop_refusal(Body body, State state) {
  const auto recorded = function([&](const Tensor& most) {
    while_loop([&](const auto&... now) { return std::get<0>(std::tie(now...)).sum() < most; }, body, state);
  });
  return what_of([&] { recorded(torch::full({}, 3.0)); });
}

TEST(WhileLoop, RefusesOtherStates) {
  const auto pair = std::tuple(torch::zeros({}), torch::ones({2}));
  EXPECT_THAT(
      loop_refusal(
          [](const Tensor& i, const Tensor& x) {
            return std::tuple(i + 1, torch::cat({x, x}));
          },
          pair),
      HasSubstr("while_loop: state 1 is float32 [2], and the body returns float32 [4] for it; it must keep its"));
  EXPECT_THAT(
      loop_refusal([](const Tensor& i, const Tensor& x) { return std::tuple(i + 1, x.to(torch::kLong)); }, pair),
      HasSubstr("the body returns int64 [2]"));
  EXPECT_THAT(what_of([] {
                while_loop([](const Tensor&) { return torch::tensor(true); }, [](const Tensor& x) { return x[0]; },
                           torch::ones({2}));
              }),
              HasSubstr("state 0 is float32 [2], and the body returns float32 []"));
  EXPECT_THAT(what_of([] {
                while_loop([](const List&) { return torch::tensor(true); }, [](const List&) { return List{}; },
                           List{torch::ones({})});
              }),
              HasSubstr("the state is a structure [1], and the body returns one of [0]"));
  EXPECT_THAT(what_of([] {
                while_loop([](const Tensor& x) { return x; }, [](const Tensor& x) { return x; }, torch::ones({2}));
              }),
              HasSubstr("while_loop: the predicate is float32 [2]"));
  EXPECT_THAT(what_of([] {
                while_loop([](const Tensor& x) { return x > 0; }, [](const Tensor& x) { return x; }, torch::ones({}),
                           {.maximum_iterations = -1});
              }),
              HasSubstr("maximum_iterations is -1"));
}

TEST(WhileLoop, RefusesGradientsAndOtherIterations) {
  const Tensor w = torch::ones({}, torch::requires_grad());
  EXPECT_THAT(loop_refusal([&](const Tensor& x) { return x + w; }, torch::zeros({})),
              HasSubstr("result 0 of the body of while_loop, of shape [], needs a gradient"));
  EXPECT_THAT(loop_refusal([&](const Tensor& x) { return x + 1; }, w),
              HasSubstr("state 0 of while_loop, of shape [], needs a gradient"));
  double rate = 1;
  EXPECT_THAT(loop_refusal([&](const Tensor& x) { return x + (rate /= 2); }, torch::zeros({})),
              HasSubstr("the body of while_loop does other things in another iteration: call 0, aten::add.Scalar, "
                        "argument other: 0.5 and then 0.25"));
  Tensor kept = torch::zeros({});
  EXPECT_THAT(loop_refusal([&](const Tensor& x) { return kept = kept + x + 1; }, torch::zeros({})),
              HasSubstr("made in a branch of cond, or in a loop, is used outside of it"));
}

TEST(WhileLoop, OfFunctionsThatCannotBeRecordedGoesOn) {
  std::vector<std::string> reasons;
  Tensor state = torch::zeros({}), plain_state = torch::zeros({});
  const auto step = [](Tensor& s, const Tensor& n) {
    return while_loop([&](const Tensor& i) { return i < n; },
                      [&](const Tensor& i) {
                        s.add_(torch::rand({}));
                        if (s.item<float>() > 1 && i.item<int64_t>() > 1) s.mul_(0.5);
                        return i + 1;
                      },
                      torch::zeros({}, torch::kLong));
  };
  const auto recorded =
      function([&](const Tensor& n) { return step(state, n); },
               {.name = "step", .if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  for (int64_t n : {4, 0, 3}) {
    torch::manual_seed(n);
    const Tensor wanted = step(plain_state, torch::tensor(n));
    torch::manual_seed(n);
    EXPECT_TRUE(same_bits(recorded(torch::tensor(n)), wanted));
    EXPECT_TRUE(same_bits(state, plain_state));
  }
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("reads a number out of a tensor")));
}

TEST(WhileLoop, IsShownWithItsConditionAndItsBody) {
  const auto recorded = function([](const Tensor& x) {
    return while_loop([](const Tensor& now) { return now < 9; }, [&](const Tensor& now) { return now + x; }, x);
  });
  recorded(torch::ones({}));
  EXPECT_EQ(recorded.get_concrete_function(torch::ones({})).graph().to_string(),
            "%0: argument 0 float32 []\n"
            "%1 = while_loop([%0], [], [%0], None)  float32 []\n"
            "  condition:\n"
            "    %0: argument 0 float32 []\n"
            "    %1 = aten::lt.Scalar(%0, 9)  bool []\n"
            "    return %1\n"
            "  body:\n"
            "    %0: argument 0 float32 []\n"
            "    %1: argument 1 float32 []\n"
            "    %2 = aten::add.Tensor(%0, %1, 1)  float32 []\n"
            "    return %2\n"
            "return %1\n");
}

TEST(WhileLoop, OfTensorsOfAMesh) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const auto make = [&] { return strategy.build([] { return variable(torch::ones({3})); }); };
  const Variable plain = make(), own = make();
  const auto step = [&](const Variable& w, const Tensor& limit) {
    const torch::NoGradGuard no_grad;
    const auto [x, y] = while_loop([&](const Tensor& x, const Tensor&) { return x.sum() < limit; },
                                   [&](const Tensor& x, const Tensor& y) {
                                     w.assign_add(x.detach() * 0.5);
                                     return std::tuple(x + w, y + 1);
                                   },
                                   std::tuple(w * 1, torch::zeros({})));
    return std::pair(gather(x), y);
  };
  const auto recorded = function([&](const Tensor& limit) { return step(own, limit); });
  for (int i = 0; i < 6; ++i) {
    const Tensor limit = torch::full({}, 10.0 * i * i);
    const auto wanted = step(plain, limit), seen = recorded(limit);
    EXPECT_TRUE(same_bits(seen.first, wanted.first) && same_bits(seen.second, wanted.second)) << "call " << i;
    EXPECT_TRUE(same_bits(gather(own), gather(plain))) << "call " << i;
  }
}

}  // namespace
}  // namespace tutti::recorded_and_plain
