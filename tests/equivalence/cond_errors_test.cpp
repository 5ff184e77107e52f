// What cond cannot be in recorded functions, and what it says then.
#include "tutti/function/control_flow.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "recorded_and_plain.h"
#include "tutti/core/error.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/export/saved_model.h"
#include "tutti/function/function.h"

namespace tutti::recorded_and_plain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EXPECT_THAT(what_of([&] { recorded(torch::tensor(true), bad); }), HasSubstr("index out of range"));
  for (int i = 0; i < 4; ++i) recorded(torch::tensor(i % 2 == 0), good);
  EXPECT_THAT(what_of([&] { recorded(torch::tensor(true), bad); }), HasSubstr("index out of range"));
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
  EXPECT_THAT(what_of([&] { recorded(torch::tensor(true)); }),
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
  EXPECT_THAT(what_of([&] { recorded(); }), HasSubstr("an exception left the branch of cond for true"));
}

TEST(Cond, RefusesOtherPredicates) {
  const auto with = [](const Tensor& predicate) {
    return what_of([&] {
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
  return what_of([&] {
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
                        "through it in a recorded function; give its detach()"));
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
  EXPECT_THAT(what_of([&] { recorded(torch::tensor(true)); }),
              HasSubstr("writes in place to a tensor of shape [3] from outside that needs a gradient"));
}

TEST(Cond, RefusesTensorsOfABranchOutsideOfIt) {
  Tensor kept;
  const auto uses = function([&](const Tensor& flag, const Tensor& x) {
    cond(
        flag, [&] { kept = x * 2; }, [] {});
    return kept + 1;
  });
  EXPECT_THAT(what_of([&] { uses(torch::tensor(true), torch::ones({2})); }),
              HasSubstr("a tensor of float32 [2] that aten::mul.Scalar made in a branch of cond, or in a loop, is used "
                        "outside of it"));
  const auto keeps = function([&](const Tensor& flag, const Tensor& x) {
    cond(
        flag, [&] { kept = x * 2; }, [] {});
  });
  keeps(torch::tensor(true), torch::ones({2}));
  EXPECT_THAT(what_of([&] { keeps(torch::tensor(true), torch::ones({2})); }),
              HasSubstr("keeps a tensor that the function made (float32 [2] of aten::mul.Scalar)"));
}

TEST(Cond, RefusesOtherShapesOfTensorsFromOutside) {
  const auto recorded = function([](const Tensor& flag) {
    Tensor x = torch::ones({2, 3}) * 2;
    cond(
        flag, [&] { x.t_(); }, [] {});
    return x;
  });
  EXPECT_THAT(what_of([&] { recorded(torch::tensor(true)); }), HasSubstr("aten::t_ changes the shape of a tensor"));
}

TEST(Cond, NamesWhatDiffersBetweenRecordingsOfABranch) {
  double rate = 0.1;
  const auto recorded = function([&](const Tensor& flag, const Tensor& x) {
    rate /= 2;
    return cond(
        flag, [&] { return x * rate; }, [&] { return x + 1; });
  });
  recorded(torch::tensor(false), torch::ones({2}));
  EXPECT_THAT(what_of([&] { recorded(torch::tensor(false), torch::ones({2})); }),
              HasSubstr("call 0, cond, in its part true: call 0, aten::mul.Scalar, argument other: 0.0"));
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

TEST(Cond, ThatHidesARefusalIsNotRecorded) {
  std::vector<std::string> reasons;
  const auto step = [&](const Tensor& flag, const Tensor& x) {
    return cond(
        flag, [&] { return x + 1; },
        [&] {
          try {
            return x * x.sum().item<float>();
          } catch (const std::exception&) {
            return x.clone();
          }
        });
  };
  const auto recorded =
      function(step, {.name = "step", .if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  for (int i = 0; i < 4; ++i) {
    const Tensor flag = torch::tensor(i < 2), x = torch::full({2}, 1.0 + i);
    EXPECT_TRUE(same_bits(recorded(flag, x), step(flag, x)));
  }
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("reads a number out of a tensor")));
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
  EXPECT_THAT(what_of(save), HasSubstr("saved_model: cond depends on values, and cannot be saved yet"));
}

TEST(Cond, RefusesRunsAndMeetings) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const auto runs = function([&](const Tensor& flag) {
    cond(
        flag, [&] { strategy.run([] { return torch::ones({}); }); }, [] {});
  });
  EXPECT_THAT(what_of([&] { runs(torch::tensor(true)); }), HasSubstr("run is called in a branch of cond"));
  EXPECT_THAT(what_of([&] { runs(torch::tensor(false)); }), HasSubstr("run is called in a branch of cond"));
  const auto meets = function([&](const Tensor& flag) {
    strategy.run([&] {
      cond(
          flag, [&] { get_replica_context().all_reduce(ReduceOp::sum, torch::ones({})); }, [] {});
    });
  });
  EXPECT_THAT(what_of([&] { meets(torch::tensor(true)); }), HasSubstr("the replicas meet in a branch of cond"));
  EXPECT_THAT(what_of([&] { meets(torch::tensor(false)); }), HasSubstr("the replicas meet in a branch of cond"));
}

}  // namespace
}  // namespace tutti::recorded_and_plain
