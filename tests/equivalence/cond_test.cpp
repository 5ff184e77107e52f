// cond in recorded functions against the same program in plain C++, bit for bit.
#include "tutti/function/control_flow.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>
#include <sstream>
#include <thread>

#include "recorded_and_plain.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/function/function.h"
#include "tutti/function/host_call.h"
#include "tutti/function/print.h"
#include "tutti/function/program.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::recorded_and_plain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

TEST(Cond, MayFollowMemoryThatNobodyUses) {
  compare_all({}, {torch::randn({3})}, [](List&, const List& a) {
    torch::tensor({1.F, 2.F});
    const auto unused = [&] { return torch::tensor({1.F, 2.F, 3.F}), a[1] + 1; };
    Tensor x = cond(a[0], unused, unused);
    for (int i = 0; i < 40; ++i) x = (x * 1.01).sin();  // memory without a user is freed meanwhile
    return List{cond(
        a[0], [&] { return x + 1; }, unused)};
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

TEST(Cond, AddsToGradientsThatAreThere) {
  const auto run = [](bool record) {
    const Tensor w = torch::ones({3}, torch::requires_grad());
    w.mutable_grad() = torch::zeros({3});
    const auto step = [&](const Tensor& flag, const Tensor& x) {
      const Tensor loss = (w * x).square().sum();
      cond(
          flag, [&] { (w * x).sin().sum().backward(); }, [&] { loss.backward(); });
      return w.grad() * 2;
    };
    const auto recorded = function(step);
    List seen;
    for (int i = 0; i < kCalls; ++i) {
      const Tensor flag = torch::tensor(i % 3 != 1), x = torch::arange(3.F) + i;
      seen.push_back((record ? recorded(flag, x) : step(flag, x)).clone());
      seen.push_back(w.grad().clone());
    }
    return seen;
  };
  expect_same(run(true), run(false), "gradient");
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
  EXPECT_THAT(what_of([&] { loss.backward(); }), HasSubstr("modified by an inplace operation"));
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

}  // namespace
}  // namespace tutti::recorded_and_plain
