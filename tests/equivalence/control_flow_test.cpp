// cond in recorded functions against the same program in plain C++, bit for bit.
#include "tutti/function/control_flow.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cstring>
#include <sstream>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/export/saved_model.h"
#include "tutti/function/function.h"
#include "tutti/function/host_call.h"
#include "tutti/function/print.h"
#include "tutti/function/program.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using List = std::vector<Tensor>;
using Step = std::function<List(List& state, const List& arguments)>;

constexpr int kCalls = 9;

template <class F>
std::string error_text(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const Tensor x = a.detach().resolve_conj().resolve_neg().contiguous();
  const Tensor y = b.detach().resolve_conj().resolve_neg().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

void expect_same(const List& seen, const List& wanted, const std::string& what) {
  ASSERT_EQ(seen.size(), wanted.size()) << what;
  for (size_t i = 0; i < seen.size(); ++i)
    EXPECT_TRUE(same_bits(seen[i], wanted[i])) << what << ' ' << i << ": " << seen[i] << "\nand plain\n" << wanted[i];
}

List copies(const List& tensors) {
  List copied;
  for (const Tensor& tensor : tensors)
    copied.push_back(tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  return copied;
}

// Calls the step as it is and as a function, each on a state of its own, and compares results, state, arguments and the
// random numbers that come next. Argument 0 is the predicate, which the bits of `pattern` give, from the lowest on.
void compare(const List& state, const List& arguments, unsigned pattern, const Step& step) {
  List plain_state = copies(state), own_state = copies(state);
  const auto recorded = function([&](const List& given) { return step(own_state, given); }, {.name = "step"});
  for (int i = 0; i < kCalls; ++i) {
    List given{torch::tensor((pattern >> i & 1U) != 0)};
    for (const Tensor& argument : arguments)
      given.push_back(argument.is_floating_point() ? argument + 0.25 * i : argument.clone());
    List plain_given = copies(given);
    torch::manual_seed(7 + i);
    const List wanted = step(plain_state, plain_given);
    const Tensor next_plain = torch::rand({3});
    torch::manual_seed(7 + i);
    const List seen = recorded(given);
    const Tensor next = torch::rand({3});
    const std::string when = "call " + std::to_string(i) + ", ";
    expect_same(seen, wanted, when + "result");
    expect_same(own_state, plain_state, when + "state");
    expect_same(given, plain_given, when + "argument");
    expect_same({next}, {next_plain}, when + "random numbers after it");
  }
  EXPECT_EQ(recorded.tracing_count(), 2);
}

// With the one branch at both recordings, with the other, and with both.
void compare_all(const List& state, const List& arguments, const Step& step) {
  for (const unsigned pattern : {0b101100110U, 0b011001001U, 0b110011001U, 0b001100111U, 0b111111111U, 0U})
    compare(state, arguments, pattern, step);
}

TEST(Cond, RunsTheBranchThatThePredicateNames) {
  compare_all({}, {torch::randn({3, 4})}, [](List&, const List& a) {
    const Tensor x = a[1] * 2;
    const Tensor y = cond(
        a[0], [&] { return x.relu() + 1; }, [&] { return x.exp() - 1; });
    return List{y, y.sum(1), x};
  });
}

TEST(Cond, OutsideOfARecordingIsAnIf) {
  int calls = 0;
  const auto choose = [&](bool flag) {
    return cond(
        torch::tensor(flag), [&] { return ++calls, torch::ones({2}); }, [&] { return torch::zeros({2}); });
  };
  EXPECT_TRUE(choose(true).equal(torch::ones({2})));
  EXPECT_TRUE(choose(false).equal(torch::zeros({2})));
  EXPECT_EQ(calls, 1);
  const Tensor w = torch::tensor({2.0, 3.0}).set_requires_grad(true);
  cond(
      torch::tensor({{true}}), [&] { return w * w; }, [&] { return w; })
      .sum()
      .backward();
  EXPECT_TRUE(w.grad().equal(torch::tensor({4.0, 6.0})));
}

TEST(Cond, WritesOfTheBranchThatIsTakenAlone) {
  compare_all({torch::ones({4}), torch::zeros({4})}, {torch::randn({4})}, [](List& s, const List& a) {
    cond(
        a[0], [&] { s[0].mul_(0.5).add_(a[1]); },
        [&] {
          s[1].sub_(a[1]);
          s[0].narrow(0, 1, 2).copy_(s[1].narrow(0, 0, 2));
        });
    return List{s[0] + s[1]};
  });
}

TEST(Cond, DrawsRandomNumbersOfTheBranchThatIsTakenAlone) {
  compare_all({torch::zeros({5})}, {torch::ones({5})}, [](List& s, const List& a) {
    const Tensor before = torch::rand({2});
    const Tensor y = cond(
        a[0], [&] { return torch::dropout(a[1], 0.5, true) + torch::randn({5}); }, [&] { return s[0].uniform_() * 2; });
    return List{before, y, torch::randn({3})};
  });
}

TEST(Cond, DrawsFromAGeneratorOfItsOwn) {
  at::Generator plain = at::make_generator<at::CPUGeneratorImpl>(3), own = at::make_generator<at::CPUGeneratorImpl>(3);
  const auto step = [](at::Generator& generator, const Tensor& flag) {
    const auto draw = [&] { return torch::empty({3}).uniform_(0, 1, generator); };
    return cond(
        flag, [&] { return draw(); }, [&] { return draw() + draw(); });
  };
  const auto recorded = function([&](const Tensor& flag) { return step(own, flag); });
  for (int i = 0; i < kCalls; ++i) {
    const Tensor flag = torch::tensor(i % 3 == 0);
    EXPECT_TRUE(same_bits(recorded(flag), step(plain, flag))) << "call " << i;
  }
}

TEST(Cond, WritesToTensorsThatTheFunctionMadeAndToArguments) {
  compare_all({torch::ones({2, 3})}, {torch::randn({2, 3}), torch::randn({3})}, [](List& s, const List& a) {
    const Tensor made = a[1] * s[0], filled = torch::empty({3});
    filled.fill_(2);
    cond(
        a[0],
        [&] {
          made.select(0, 1).add_(a[2]);
          filled.mul_(a[2]);
        },
        [&] {
          a[2].neg_();
          made.t().select(0, 2).zero_();
          a[1].add_(1);
        });
    return List{made.sum(0) + a[2], filled, made};
  });
}

TEST(Cond, TakesViewsOfAllKinds) {
  compare_all({torch::randn({3, 4})}, {torch::randn({4, 3, 2})}, [](List& s, const List& a) {
    const Tensor complex = torch::view_as_complex(a[1].contiguous()), conjugated = complex.conj();
    const Tensor imaginary = torch::imag(conjugated), rows = s[0].t().slice(0, 1, 3);
    const auto [x, y] = cond(
        a[0], [&] { return std::tuple(conjugated * 2, rows.clone().add_(imaginary.slice(0, 0, 2))); },
        [&] { return std::tuple(conjugated, rows); });
    return List{x, y, y * 2, torch::view_as_real(x.resolve_conj())};
  });
}

TEST(Cond, GivesTensorsOfTheirOwn) {
  compare_all({torch::ones({3})}, {torch::randn({3})}, [](List& s, const List& a) {
    const Tensor made = a[1] + 1;
    const auto [x, y, z] = cond(
        a[0], [&] { return std::tuple(s[0], made, made); }, [&] { return std::tuple(a[1], s[0], made.expand({3})); });
    s[0].add_(1);
    made.mul_(3);
    x.sub_(5);
    a[1].zero_();
    return List{x, y, z, made};
  });
}

struct Pair {
  Tensor first, second;
};

TEST(Cond, GivesStructures) {
  compare_all({}, {torch::randn({3})}, [](List&, const List& a) {
    using Named = std::map<std::string, std::vector<Tensor>>;
    const Pair pair = cond(
        a[0],
        [&] {
          return Pair{a[1], a[1].sum()};
        },
        [&] {
          return Pair{-a[1], a[1].max()};
        });
    const Named named = cond(
        a[0],
        [&] {
          return Named{{"a", {pair.first}}, {"b", {a[1] + 1, Tensor()}}};
        },
        [&] {
          return Named{{"a", {pair.first * 2}}, {"b", {a[1], Tensor()}}};
        });
    EXPECT_FALSE(named.at("b")[1].defined());
    return List{pair.first, pair.second, named.at("a")[0], named.at("b")[0]};
  });
}

TEST(Cond, InCond) {
  compare_all({torch::zeros({3}), torch::ones({3})}, {torch::randn({3})}, [](List& s, const List& a) {
    const Tensor sum = a[1].sum(), big = sum > 0.5;
    const Tensor y = cond(
        a[0],
        [&] {
          const Tensor twice = a[1] * 2;
          const Tensor inner = cond(
              big, [&] { return s[0].add_(twice) + torch::rand({3}); }, [&] { return twice - s[1].add_(1); });
          return inner * twice;
        },
        [&] {
          cond(
              big.logical_not(), [&] { s[1].mul_(2); }, [] {});
          return s[1] + torch::rand({3});
        });
    cond(
        y.sum() > 0, [&] { s[0].add_(y); }, [&] { s[0].sub_(y); });
    return List{y, y * 2};
  });
}

TEST(Cond, CallsFunctions) {
  const auto inner = function([](const Tensor& x) { return x * 3 + 1; });
  compare_all({}, {torch::randn({3})}, [&](List&, const List& a) {
    return List{cond(
        a[0], [&] { return inner(a[1]); }, [&] { return inner(inner(a[1])); })};
  });
}

TEST(Cond, KnowsWhatCppWroteBefore) {
  compare_all({}, {torch::randn({3})}, [](List&, const List& a) {
    const Tensor table = torch::tensor({1.F, 2.F, 4.F});
    Tensor filled = torch::empty({3});
    for (int i = 0; i < 3; ++i) filled.data_ptr<float>()[i] = static_cast<float>(i);
    return List{cond(
                    a[0],
                    [&] {
                      return a[1] * table + torch::tensor({5.F, 6.F, 7.F});
                    },
                    [&] {
                      return torch::tensor({1.F, 1.F, 2.F}) - filled;
                    }),
                filled};
  });
}

TEST(Cond, KeepsStatisticsOfNormalization) {
  compare_all({torch::zeros({3}), torch::ones({3})}, {torch::randn({8, 3})}, [](List& s, const List& a) {
    return List{cond(
        a[0], [&] { return torch::batch_norm(a[1], {}, {}, s[0], s[1], true, 0.1, 1e-5, false); },
        [&] { return torch::batch_norm(a[1], {}, {}, s[0], s[1], false, 0.1, 1e-5, false); })};
  });
}

TEST(Cond, ComputesGradientsInABranch) {
  compare_all({torch::randn({3}, torch::requires_grad())}, {torch::randn({3})}, [](List& s, const List& a) {
    const Tensor hidden = s[0] * a[1];
    const auto step = [&](double rate) {
      return [&, rate] {
        const Tensor loss = (s[0] * a[1] + hidden.detach()).square().sum();
        const Tensor gradient = torch::autograd::grad({loss}, {s[0]})[0];
        const torch::NoGradGuard no_grad;
        s[0].sub_(rate * gradient);
        return loss.detach();
      };
    };
    return List{cond(a[0], step(0.1), step(0.01)), hidden.detach()};
  });
}

// Runs a step with an optimizer on a variable of its own, as it is and as a function.
template <class MakeOptimizer>
void compare_optimizer(MakeOptimizer make, unsigned pattern) {
  const auto run = [&](bool record) {
    auto optimizer = make();
    const Tensor w = torch::tensor({1.F, -2.F, 3.F}).set_requires_grad(true);
    const List variables{w};
    const auto step = [&](const Tensor& x, const Tensor& flag) {
      const Tensor loss = (w * x).square().sum();
      const Tensor gradient = torch::autograd::grad({loss}, {w})[0];
      return cond(
          flag,
          [&] {
            optimizer.apply_gradients(List{gradient}, variables);
            return loss.detach();
          },
          [&] { return -loss.detach(); });
    };
    const auto recorded = function(step);
    List seen;
    for (int i = 0; i < kCalls; ++i) {
      const Tensor x = torch::tensor({1.F, 2.F, 0.5F}) + i, flag = torch::tensor((pattern >> i & 1U) != 0);
      seen.push_back(record ? recorded(x, flag) : step(x, flag));
      seen.push_back(w.detach().clone());
      seen.push_back(torch::tensor(optimizer.iterations()));
    }
    return seen;
  };
  expect_same(run(true), run(false), "optimizer");
}

TEST(Cond, StepsOptimizersOfKerasOnce) {
  for (const unsigned pattern : {0b101100110U, 0b011001001U, 0b111111100U, 0b001100111U}) {
    compare_optimizer([] { return keras::optimizers::Adam({.learning_rate = 0.1}); }, pattern);
    compare_optimizer([] { return keras::optimizers::SGD({.learning_rate = 0.1, .momentum = 0.9}); }, pattern);
  }
}

TEST(Cond, CallsTheHostInTheBranchThatIsTakenAlone) {
  std::ostringstream out;
  std::vector<float> seen;
  const auto recorded = function([&](const Tensor& flag, const Tensor& x) {
    return cond(
        flag,
        [&] {
          print(out, "true", x.sum());
          const Tensor index = host_call([](const Tensor& v) { return v.argmax(); }, {.dtype = torch::kLong}, x);
          return x.index_select(0, index.view({1}));
        },
        [&] {
          host_call([&](const Tensor& v) { seen.push_back(v[0].item<float>()); }, x);
          return x.slice(0, 0, 1);
        });
  });
  std::vector<float> results;
  for (int i = 0; i < 6; ++i)
    results.push_back(recorded(torch::tensor(i % 2 == 0), torch::tensor({1.F, 5.F, 2.F}) + i).item<float>());
  EXPECT_THAT(results, ElementsAre(5, 2, 7, 4, 9, 6));
  EXPECT_THAT(seen, ElementsAre(2, 4, 6));
  EXPECT_EQ(out.str(), "true 8\ntrue 14\ntrue 20\n");
}

TEST(Cond, LeavesGraphsFromOutsideAloneThatItsOtherBranchWouldMakeStale) {
  const Tensor w = torch::ones({2}), v = torch::full({2}, 2.0, torch::requires_grad());
  const auto recorded = function([&](const Tensor& flag) {
    cond(
        flag, [&] { w.add_(1); }, [] {});
  });
  for (int i = 0; i < kCalls; ++i) {
    const Tensor loss = (v * w).sum();
    recorded(torch::tensor(false));
    loss.backward();
  }
  const Tensor loss = (v * w).sum();
  recorded(torch::tensor(true));
  EXPECT_THAT(error_text([&] { loss.backward(); }), HasSubstr("modified by an inplace operation"));
}

TEST(Cond, ThrowsWhatABranchThrows) {
  const Tensor state = torch::zeros({});
  const auto recorded = function([&](const Tensor& flag, const Tensor& index) {
    return cond(
        flag,
        [&] {
          state.add_(1);
          return torch::arange(3.F).index_select(0, index);
        },
        [] { return torch::zeros({1}); });
  });
  const Tensor good = torch::tensor({1}), bad = torch::tensor({7});
  EXPECT_THAT(error_text([&] { recorded(torch::tensor(true), bad); }), HasSubstr("index out of range"));
  for (int i = 0; i < 4; ++i) recorded(torch::tensor(i % 2 == 0), good);
  EXPECT_THAT(error_text([&] { recorded(torch::tensor(true), bad); }), HasSubstr("index out of range"));
  EXPECT_TRUE(recorded(torch::tensor(false), bad).equal(torch::zeros({1})));
  EXPECT_TRUE(recorded(torch::tensor(true), good).equal(torch::ones({1})));
  EXPECT_EQ(state.item<float>(), 5);
}

TEST(Cond, TellsWhereTheBranchThatIsNotTakenThrows) {
  const Tensor state = torch::zeros({2});
  const auto recorded = function([&](const Tensor& flag) {
    cond(
        flag, [&] { state.add_(1); },
        [&] {
          state.mul_(7).add_(3);
          throw std::runtime_error("no such branch");
        });
  });
  EXPECT_THAT(error_text([&] { recorded(torch::tensor(true)); }),
              HasSubstr("no such branch. It is the branch of cond for false, which is not taken, and runs to be"));
  EXPECT_TRUE(state.equal(torch::zeros({2})));
}

TEST(Cond, AnExceptionThatTheFunctionCatchesIsRefused) {
  const Tensor state = torch::zeros({});
  const auto recorded = function([&] {
    try {
      cond(
          torch::ones({}, torch::kBool),
          [&] {
            state.add_(1);
            throw std::runtime_error("caught");
          },
          [] {});
    } catch (const std::runtime_error&) {
    }
  });
  EXPECT_THAT(error_text([&] { recorded(); }), HasSubstr("an exception left the branch of cond for true"));
}

TEST(Cond, RefusesOtherPredicates) {
  const auto with = [](const Tensor& predicate) {
    return error_text([&] {
      cond(
          predicate, [] {}, [] {});
    });
  };
  EXPECT_THAT(with(torch::ones({})), HasSubstr("the predicate is float32 []; it must be a bool tensor of one element"));
  EXPECT_THAT(with(torch::ones({2}, torch::kBool)), HasSubstr("the predicate is bool [2]"));
  EXPECT_THAT(with(Tensor()), HasSubstr("the predicate is no tensor"));
  EXPECT_EQ(with(torch::ones({1, 1}, torch::kBool)), "no error");
}

// What a recording of cond with these branches says.
template <class True, class False>
std::string refusal(True if_true, False if_false) {
  const auto recorded = function([&](const Tensor& flag) { cond(flag, if_true, if_false); });
  return error_text([&] {
    for (int i = 0; i < 3; ++i) recorded(torch::tensor(true));
  });
}

TEST(Cond, RefusesResultsThatDiffer) {
  EXPECT_THAT(refusal([] { return torch::ones({3}); }, [] { return torch::ones({4}); }),
              HasSubstr("the branch of cond for true returns float32 [3] as result 0, and the branch of cond for false "
                        "float32 [4]; both must return the same shapes and dtypes"));
  EXPECT_THAT(refusal([] { return torch::ones({3}); }, [] { return torch::ones({3}, torch::kLong); }),
              HasSubstr("int64 [3]"));
  EXPECT_THAT(refusal([] { return torch::ones({3}); }, [] { return Tensor(); }), HasSubstr("no tensor"));
  EXPECT_THAT(refusal([] { return List{torch::ones({3})}; }, [] { return List{}; }),
              HasSubstr("returns a structure [1], and the branch of cond for false one of [0]"));
}

TEST(Cond, RefusesGradientsThroughIt) {
  const Tensor w = torch::ones({3}, torch::requires_grad());
  EXPECT_THAT(refusal([&] { return w * 2; }, [] { return torch::ones({3}); }),
              HasSubstr("result 0 of the branch of cond for true, of shape [3], needs a gradient, which does not go "
                        "through it in a recorded function; return its detach()"));
  EXPECT_THAT(refusal([] { return torch::ones({3}); }, [&] { return w; }), HasSubstr("cond for false, of shape [3]"));
  EXPECT_THAT(refusal([&] { (w * 2).sum().backward(); }, [] {}),
              HasSubstr("leaves another grad() of a variable of shape [3] than it found"));
  w.mutable_grad().reset();
  EXPECT_THAT(refusal([] {}, [&] { (w * 2).sum().backward(); }), HasSubstr("leaves another grad()"));
  EXPECT_FALSE(w.grad().defined());
  const auto recorded = function([&](const Tensor& flag) {
    Tensor hidden = torch::ones({3}) * 2;
    cond(
        flag, [] {}, [&] { hidden.mul_(w); });
    return hidden.detach();
  });
  EXPECT_THAT(error_text([&] { recorded(torch::tensor(true)); }),
              HasSubstr("writes in place to a tensor of shape [3] from outside that needs a gradient"));
}

TEST(Cond, RefusesTensorsOfABranchOutsideOfIt) {
  Tensor kept;
  const auto uses = function([&](const Tensor& flag, const Tensor& x) {
    cond(
        flag, [&] { kept = x * 2; }, [] {});
    return kept + 1;
  });
  EXPECT_THAT(error_text([&] { uses(torch::tensor(true), torch::ones({2})); }),
              HasSubstr("a tensor of float32 [2] that aten::mul.Scalar made in a branch of cond, or in a loop, is used "
                        "outside of it"));
  const auto keeps = function([&](const Tensor& flag, const Tensor& x) {
    cond(
        flag, [&] { kept = x * 2; }, [] {});
  });
  keeps(torch::tensor(true), torch::ones({2}));
  EXPECT_THAT(error_text([&] { keeps(torch::tensor(true), torch::ones({2})); }),
              HasSubstr("keeps a tensor that the function made (float32 [2] of aten::mul.Scalar)"));
}

TEST(Cond, RefusesOtherShapesOfTensorsFromOutside) {
  const auto recorded = function([](const Tensor& flag) {
    Tensor x = torch::ones({2, 3}) * 2;
    cond(
        flag, [&] { x.t_(); }, [] {});
    return x;
  });
  EXPECT_THAT(error_text([&] { recorded(torch::tensor(true)); }), HasSubstr("aten::t_ changes the shape of a tensor"));
}

TEST(Cond, NamesWhatDiffersBetweenRecordingsOfABranch) {
  double rate = 0.1;
  const auto recorded = function([&](const Tensor& flag, const Tensor& x) {
    rate /= 2;
    return cond(
        flag, [&] { return x * rate; }, [&] { return x + 1; });
  });
  recorded(torch::tensor(false), torch::ones({2}));
  EXPECT_THAT(error_text([&] { recorded(torch::tensor(false), torch::ones({2})); }),
              HasSubstr("call 0, cond, in its part true: call 0, aten::mul.Scalar, argument other: 0.0"));
}

TEST(Cond, IsShownWithItsBranches) {
  const auto recorded = function([](const Tensor& flag, const Tensor& x) {
    return cond(
               flag, [&] { return x * 2; }, [&] { return x.neg(); }) +
           1;
  });
  recorded(torch::tensor(true), torch::ones({2}));
  EXPECT_EQ(recorded.get_concrete_function(torch::tensor(true), torch::ones({2})).graph().to_string(),
            "%0: argument 0 bool []\n"
            "%1: argument 1 float32 [2]\n"
            "%2 = cond(%0, [%1], [%1])  float32 [2]\n"
            "  true:\n"
            "    %0: argument 0 float32 [2]\n"
            "    %1 = aten::mul.Scalar(%0, 2)  float32 [2]\n"
            "    return %1\n"
            "  false:\n"
            "    %0: argument 0 float32 [2]\n"
            "    %1 = aten::neg(%0)  float32 [2]\n"
            "    return %1\n"
            "%3 = aten::add.Scalar(%2, 1, 1)  float32 [2]\n"
            "return %3\n");
}

TEST(Cond, MayBeCalledByThreadsAtOnce) {
  const auto recorded = function([](const Tensor& flag, const Tensor& x) {
    const Tensor y = x * 2;
    return cond(
               flag, [&] { return y.cumsum(0); }, [&] { return y.flip(0) + x; }) -
           1;
  });
  recorded(torch::tensor(true), torch::ones({100}));
  recorded(torch::tensor(false), torch::ones({100}));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const bool flag = (i + t) % 3 == 0;
        const Tensor x = torch::arange(100.F) + t;
        const Tensor y = x * 2, wanted = (flag ? y.cumsum(0) : y.flip(0) + x) - 1;
        wrong += !same_bits(recorded(torch::tensor(flag), x), wanted);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(recorded.tracing_count(), 2);
}

TEST(Cond, OfFunctionsThatCannotBeRecordedRunsOneBranch) {
  for (const bool taken : {true, false}) {
    std::vector<std::string> reasons;
    Tensor state = torch::zeros({2}), plain_state = torch::zeros({2});
    const auto step = [&](Tensor& s, const Tensor& flag) {
      return cond(
          flag,
          [&] {
            s.add_(torch::rand({2}));
            if (s.sum().item<float>() > 1) s.mul_(2);
            return s + 1;
          },
          [&] { return s.sub_(1) * 2; });
    };
    const auto recorded =
        function([&](const Tensor& flag) { return step(state, flag); },
                 {.name = "step", .if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
    for (int i = 0; i < 4; ++i) {
      const Tensor flag = torch::tensor(taken == (i != 2));
      torch::manual_seed(i);
      const Tensor wanted = step(plain_state, flag);
      torch::manual_seed(i);
      EXPECT_TRUE(same_bits(recorded(flag), wanted));
      EXPECT_TRUE(same_bits(state, plain_state));
      EXPECT_EQ(CallRecorder::current(), nullptr);
    }
    EXPECT_THAT(reasons, ElementsAre(HasSubstr("reads a number out of a tensor")));
  }
}

TEST(Cond, IsRefusedInWhatIsSaved) {
  const auto f = [](const Tensor& x) {
    return cond(
        x.sum() > 0, [&] { return x * 2; }, [&] { return x; });
  };
  const auto save = [&] {
    saved_model::save(
        "never",
        {.signatures = {{"f", saved_model::Signature(f, {.inputs = {saved_model::TensorSpec({.shape = {4}})}})}}});
  };
  EXPECT_THAT(error_text(save), HasSubstr("saved_model: cond depends on values, and cannot be saved yet"));
}

TEST(Cond, WritesVariablesOfAMesh) {
  for (const bool flag_of_mesh : {false, true}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
    const auto make = [&] { return strategy.build([] { return variable(torch::ones({3})); }); };
    const Variable plain = make(), own = make(), limit = make();
    const auto step = [&](const Variable& w, const Tensor& flag, const Tensor& x) {
      const Tensor predicate = flag_of_mesh ? (limit * x.sum()).sum() > 0 : flag;
      return cond(
          predicate,
          [&] {
            w.assign_add(x);
            return gather(w * 2);
          },
          [&] {
            const torch::NoGradGuard no_grad;
            w.mul_(0.5);
            return gather(w + limit);
          });
    };
    const auto recorded = function([&](const Tensor& flag, const Tensor& x) {
      const torch::NoGradGuard no_grad;
      return step(own, flag, x);
    });
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < kCalls; ++i) {
      const bool flag = i % 3 != 1;
      const Tensor x = torch::full({3}, flag ? 1.0 + i : -1.0 - i);
      const Tensor wanted = step(plain, torch::tensor(flag), x);
      EXPECT_TRUE(same_bits(recorded(torch::tensor(flag), x), wanted)) << "call " << i;
      EXPECT_TRUE(same_bits(gather(own), gather(plain))) << "call " << i;
      const auto seen = strategy.run([&] { return own.detach().clone(); });
      EXPECT_TRUE(same_bits(seen[1], gather(plain))) << "call " << i;
    }
  }
}

TEST(Cond, InReplicasIsEachOnesOwn) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Variable scale = strategy.build([] { return variable(torch::full({}, 3.0)); });
  const auto replica_step = [&](const Tensor& x) {
    const torch::NoGradGuard no_grad;
    return cond(
        x.sum() > 0, [&] { return x * scale; }, [&] { return x - scale; });
  };
  const auto recorded = function([&](const PerReplica<Tensor>& rows) { return strategy.run(replica_step, rows); });
  for (int i = 0; i < kCalls; ++i) {
    const Tensor x = torch::randn({6}) + (i % 2 ? 0.3 : -0.3);
    const auto rows = strategy.values_from_function(
        [&](const ValueContext& context) { return x.narrow(0, 3 * context.replica_id_in_sync_group, 3); });
    const auto wanted = strategy.run(replica_step, rows), seen = recorded(rows);
    for (size_t r = 0; r < 2; ++r) EXPECT_TRUE(same_bits(seen[r], wanted[r])) << "call " << i;
  }
}

TEST(Cond, RefusesRunsAndMeetings) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const auto runs = function([&](const Tensor& flag) {
    cond(
        flag, [&] { strategy.run([] { return torch::ones({}); }); }, [] {});
  });
  EXPECT_THAT(error_text([&] { runs(torch::tensor(true)); }), HasSubstr("run is called in a branch of cond"));
  EXPECT_THAT(error_text([&] { runs(torch::tensor(false)); }), HasSubstr("run is called in a branch of cond"));
  const auto meets = function([&](const Tensor& flag) {
    strategy.run([&] {
      cond(
          flag, [&] { get_replica_context().all_reduce(ReduceOp::sum, torch::ones({})); }, [] {});
    });
  });
  EXPECT_THAT(error_text([&] { meets(torch::tensor(true)); }), HasSubstr("the replicas meet in a branch of cond"));
  EXPECT_THAT(error_text([&] { meets(torch::tensor(false)); }), HasSubstr("the replicas meet in a branch of cond"));
}

}  // namespace
}  // namespace tutti
