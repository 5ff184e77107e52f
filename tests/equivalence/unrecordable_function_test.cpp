// Functions that run on where they cannot be recorded: what they do is what plain calls do, whatever fails and where.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <thread>

#include "tutti/data/dataset.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/function/function.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Step = std::function<Tensor(const Tensor&, Tensor&)>;  // of an argument and a state

// Runs the step six times as it is and six times as a function; returns the reasons that were given.
std::vector<std::string> compare(const Step& step) {
  std::vector<std::string> reasons;
  torch::manual_seed(3);
  Tensor plain_state = torch::ones({4});
  std::vector<Tensor> plain;
  for (int i = 0; i < 6; ++i) plain.push_back(step(torch::arange(4.F) + i, plain_state).clone());
  torch::manual_seed(3);
  Tensor state = torch::ones({4});
  const auto recorded =
      function([&](const Tensor& x) { return step(x, state); },
               {.name = "step", .if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(torch::equal(recorded(torch::arange(4.F) + i), plain[static_cast<size_t>(i)])) << "call " << i;
    EXPECT_EQ(CallRecorder::current(), nullptr);
  }
  EXPECT_TRUE(torch::equal(state, plain_state));
  return reasons;
}

TEST(UnrecordableFunction, GivesNoReasonWhereNothingFails) {
  EXPECT_THAT(compare([](const Tensor& x, Tensor& state) { return state.add_(x).exp(); }), ElementsAre());
}

TEST(UnrecordableFunction, GoesOnWhereCppReadsAValue) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    state.add_(torch::rand({4}));
    if ((x * 2).sum().item<float>() > 20) state.mul_(2);
    return state.add_(x) / 3;
  });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("reads a number out of a tensor")));
}

TEST(UnrecordableFunction, GoesOnWhereCppAsksForMemory) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    const Tensor sum = (state.add_(x) * 2).sum();
    return state * *sum.data_ptr<float>();
  });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("reads or writes the memory")));
}

TEST(UnrecordableFunction, GoesOnWhereCppWritesToTheArgumentsMemory) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    x.accessor<float, 1>()[1] = 7;
    return state.add_(x).clone();
  });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("reads or writes the memory")));
}

TEST(UnrecordableFunction, GoesOnWhereAnotherThreadAsksForMemory) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    Tensor twice = x * 2;
    std::thread([&] { twice.data_ptr<float>()[0] = 5; }).join();
    return state.add_(twice) + 1;
  });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("another thread")));
}

TEST(UnrecordableFunction, GoesOnWhereAShapeDependsOnValues) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    state.add_(x.index({x > 2}).sum());
    return torch::nonzero(x > 2).sum() + state;
  });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("depends on the values of a tensor")));
}

TEST(UnrecordableFunction, GoesOnWhereAGivenResultIsResizedByValues) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    Tensor values = torch::empty({0}), places = torch::empty({0}, torch::kLong), counts = torch::empty_like(places);
    at::unique_dim_out(values, places, counts, x.flatten(), 0, /*sorted=*/true, false, false);
    return state.add_(values.sum()) * 2;
  });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("depends on the values of a tensor")));
}

TEST(UnrecordableFunction, GoesOnWhereACompositeReadsLengths) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    const Tensor ends = torch::tensor({int64_t{1}, int64_t{3}});
    return state.add_(torch::tensor_split(x, ends)[1].sum()) * 2;
  });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("tensor_split reads lengths or places")));
}

TEST(UnrecordableFunction, GoesOnWithoutANumberOfClasses) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    return torch::one_hot(x.to(torch::kLong)).sum({1}).to(torch::kFloat) * state;
  });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("one_hot without a number of classes")));
}

TEST(UnrecordableFunction, GoesOnWithSparseTensors) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    const Tensor weight = torch::ones({5, 3}).requires_grad_();
    torch::embedding(weight, x.to(torch::kLong) % 5, -1, false, /*sparse=*/true).sum().backward();
    return state.add_(weight.grad().to_dense().sum());
  });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("sparse")));
}

TEST(UnrecordableFunction, GoesOnWhereANumberChanges) {
  int count = 0;
  const auto reasons = compare([&](const Tensor& x, Tensor& state) { return state.add_(x, ++count % 6) * 2; });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("differ")));
}

TEST(UnrecordableFunction, GoesOnWhereATensorIsKept) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) { return state = state * 0.9 + x; });
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("step: ")));
}

TEST(UnrecordableFunction, GoesOnWhereAnArgumentIsResized) {
  const auto reasons = compare([](const Tensor& x, Tensor& state) {
    x.resize_({2, 3});
    x.fill_(2);
    return state.add_(x.sum()) * 2;
  });
  EXPECT_EQ(reasons.size(), 1U);
}

TEST(UnrecordableFunction, GivesTheGradientOfAnArgument) {
  std::vector<std::string> reasons;
  const auto square = function([](const Tensor& x) { return x.square().sum(); },
                               {.if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  const Tensor x = torch::ones({3}).requires_grad_();
  for (int i = 0; i < 4; ++i) square(x).backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::full({3}, 8.F)));
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("requires a gradient")));
}

TEST(UnrecordableFunction, ItsOwnErrorIsItsOwn) {
  std::vector<std::string> reasons;
  const auto f = function(
      [](const Tensor& x) {
        return torch::nll_loss(torch::zeros({2, 3}), x);
      },
      {.if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  for (int i = 0; i < 4; ++i) {
    EXPECT_THROW(f(torch::tensor({int64_t{0}, int64_t{9}})), c10::Error);
    EXPECT_EQ(f(torch::tensor({int64_t{0}, int64_t{1}})).item<float>(), 0);
  }
  EXPECT_THAT(reasons, ElementsAre());
}

TEST(UnrecordableFunction, MoreShapesThanAllowedRunAsTheyAre) {
  std::vector<std::string> reasons;
  const auto twice =
      function([](const Tensor& x) { return x * 2; },
               {.max_traces = 2, .if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  for (int i = 0; i < 5; ++i)
    for (int64_t n = 1; n < 5; ++n) EXPECT_TRUE(torch::equal(twice(torch::ones({n})), torch::full({n}, 2.F)));
  EXPECT_EQ(twice.tracing_count(), 4);
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("would be recording 3")));
}

TEST(UnrecordableFunction, IsRecordedOnceMoreWhereWhatItUsesGotOtherMemory) {
  Tensor weight = torch::ones({3});
  std::vector<std::string> reasons;
  const auto scale = function([&](const Tensor& x) { return x * weight; },
                              {.if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  for (int i = 0; i < 6; ++i) {
    if (i == 1) weight.set_data(torch::full({3}, 2.F));  // between the recordings that are compared
    EXPECT_TRUE(torch::equal(scale(torch::ones({3})), weight)) << i;
  }
  EXPECT_EQ(scale.tracing_count(), 3);
  EXPECT_THAT(reasons, ElementsAre());
}

TEST(UnrecordableFunction, WhereThatHasOtherMemoryAtEachCallTheseCallsRunAsTheyAre) {
  Tensor weight = torch::ones({3});
  std::vector<std::string> reasons;
  const auto scale = function([&](const Tensor& x) { return x * weight; },
                              {.if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  for (int i = 0; i < 12; ++i) {
    weight.set_data(torch::full({3}, i));
    EXPECT_TRUE(torch::equal(scale(torch::ones({3})), weight)) << i;
  }
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("is other at each call")));
  const int64_t tracings = scale.tracing_count();
  EXPECT_LT(tracings, 12);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(torch::equal(scale(torch::ones({1, 3})), weight.unsqueeze(0)));
  EXPECT_EQ(scale.tracing_count(), tracings + 2);  // others are recorded and replayed
}

// A replay knows one generator, and each element of a seeded map has its own.
TEST(UnrecordableFunction, ElementsOfASeededMapDrawTheirOwnNumbers) {
  const auto draw = [](const Tensor& x) { return x + torch::rand({2}) + torch::empty({2}).uniform_(); };
  std::vector<std::string> reasons;
  const auto recorded =
      function(draw, {.if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  for (int i = 0; i < 4; ++i) recorded(torch::ones({}));  // replayed outside of the map, from LibTorch's generator
  const auto drawn_by = [](const auto& f) {
    std::vector<Tensor> values;
    for (const Tensor& x : data::range(6).map([](const Tensor& x) { return x.to(torch::kFloat); }).map(f, {.seed = 3}))
      values.push_back(x);
    return torch::stack(values);
  };
  EXPECT_TRUE(torch::equal(drawn_by(recorded), drawn_by(draw)));
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("draws random numbers in a map with a seed")));
  const auto strict = function(draw);
  EXPECT_THROW(drawn_by(strict), Error);
  const auto twice = function([](const Tensor& x) { return x * 2; });
  EXPECT_TRUE(torch::equal(drawn_by(twice), torch::arange(6.F) * 2));
}

TEST(UnrecordableFunction, ReplicasGoOnTogether) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(3)});
  std::vector<std::string> reasons;
  const auto step = [&] {
    return strategy.run([&] {
      const ReplicaContext context = get_replica_context();
      const Tensor own = torch::full({2}, context.replica_id_in_sync_group() + 1.F);
      const Tensor sum = context.all_reduce(ReduceOp::sum, own);
      const float read = context.replica_id_in_sync_group() == 1 ? sum.sum().item<float>() : 0;
      return context.all_reduce(ReduceOp::sum, own * sum + read);
    });
  };
  const auto recorded =
      function(step, {.if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  const auto plain = step();
  for (int i = 0; i < 4; ++i) {
    const auto got = recorded();
    for (size_t r = 0; r < 3; ++r) EXPECT_TRUE(torch::equal(got[r], plain[r]));
  }
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("reads a number out of a tensor")));
}

}  // namespace
}  // namespace tutti
