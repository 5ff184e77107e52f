#include "tutti/function/host_call.h"
#include "tests/support/error_of.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/torch.h>

#include <sstream>

#include "tutti/core/error.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/export/saved_model.h"
#include "tutti/function/function.h"
#include "tutti/function/print.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// By a loop over the numbers, of which no recording could be made.
Tensor largest_first(const Tensor& x) {
  std::vector<float> numbers(x.data_ptr<float>(), x.data_ptr<float>() + x.numel());
  std::ranges::sort(numbers, std::greater<>());
  return torch::tensor(numbers);
}

TEST(HostCall, ComputesAnewInEachReplay) {
  const auto plain = [](const Tensor& x) { return largest_first(x * 2 + 1).cumsum(0) - 1; };
  const auto recorded =
      function([](const Tensor& x) { return host_call(largest_first, {.shape = {5}}, x * 2 + 1).cumsum(0) - 1; });
  for (int i = 0; i < 6; ++i) {
    const Tensor x = torch::randn({5});
    EXPECT_TRUE(recorded(x).equal(plain(x))) << "call " << i;
  }
  EXPECT_EQ(recorded.tracing_count(), 2);
}

TEST(HostCall, TakesSeveralInputsAndGivesTheDtypeThatIsNamed) {
  const auto index_of = [](const Tensor& x, const Tensor& wanted) {
    for (int64_t i = 0; i < x.numel(); ++i)
      if (x[i].item<int64_t>() == wanted.item<int64_t>()) return torch::tensor(i);
    return torch::tensor(int64_t{-1});
  };
  const auto recorded = function([&](const Tensor& x, const Tensor& wanted) {
    return host_call(index_of, {.dtype = torch::kLong}, x, wanted) + 100;
  });
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(recorded(torch::arange(4) * 3, torch::tensor(3 * i)).item<int64_t>(), i < 4 ? 100 + i : 99);
}

TEST(HostCall, WithoutAResultSeesTheValuesOfEachStep) {
  torch::nn::Linear plain(3, 1), net(3, 1);
  {
    const torch::NoGradGuard no_grad;
    plain->weight.copy_(net->weight);
    plain->bias.copy_(net->bias);
  }
  torch::optim::SGD plain_sgd(plain->parameters(), 0.1), sgd(net->parameters(), 0.1);
  std::vector<float> losses, weights;
  const auto step = function([&](const Tensor& x) {
    sgd.zero_grad();
    const Tensor loss = net->forward(x).square().mean();
    loss.backward();
    const auto weight_is = [&](const Tensor& w) { weights.push_back(w[0][0].item<float>()); };
    host_call(weight_is, net->weight);  // before the update
    sgd.step();
    host_call(weight_is, net->weight);  // and after it
    host_call([&](const Tensor& value) { losses.push_back(value.item<float>()); }, loss);
  });
  for (size_t i = 0; i < 6; ++i) {
    const Tensor x = torch::randn({4, 3});
    plain_sgd.zero_grad();
    const Tensor loss = plain->forward(x).square().mean();
    loss.backward();
    const float before = plain->weight[0][0].item<float>();
    plain_sgd.step();
    step(x);
    ASSERT_EQ(losses.size(), i + 1);
    EXPECT_EQ(losses[i], loss.item<float>());
    EXPECT_EQ(weights[2 * i], before);
    EXPECT_EQ(weights[2 * i + 1], plain->weight[0][0].item<float>());
  }
}

TEST(HostCall, InReplicasIsCalledForEachOfThem) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Variable scale = strategy.build([] { return variable(torch::full({}, 3.0)); });
  const auto step = function([&](const PerReplica<Tensor>& rows) {
    return strategy.reduce(ReduceOp::sum,
                           strategy.run(
                               [&](const Tensor& x) {
                                 return host_call(
                                     [](const Tensor& part, const Tensor& s) { return part.sum() * s.item<float>(); },
                                     {}, x, scale.detach());
                               },
                               rows));
  });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = torch::randn({6});
    const auto rows = strategy.values_from_function(
        [&](const ValueContext& context) { return x.narrow(0, 3 * context.replica_id_in_sync_group, 3); });
    EXPECT_NEAR(step(rows).item<float>(), 3 * x.sum().item<float>(), 1e-5);
  }
}

TEST(HostCall, OfAVariableOfAMeshSeesItsValue) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Variable count = strategy.build([] { return variable(torch::zeros({})); });
  std::vector<float> seen;
  const auto step = function([&](const Tensor& by) {
    count.assign_add(by);
    host_call([&](const Tensor& now) { seen.push_back(now.item<float>()); }, count);
  });
  for (int i = 0; i < 5; ++i) step(torch::full({}, 2.0));
  EXPECT_THAT(seen, ElementsAre(2, 4, 6, 8, 10));
}

TEST(HostCall, AnErrorOfTheFunctionEndsTheCallAndNotTheRecording) {
  const auto recorded = function([](const Tensor& x) {
    const auto check = [](const Tensor& value) {
      if (value.item<float>() < 0) throw std::runtime_error("negative");
    };
    host_call(check, x.sum());
    return x + 1;
  });
  for (int i = 0; i < 3; ++i) recorded(torch::ones({2}));
  EXPECT_EQ(what_of([&] { recorded(-torch::ones({2})); }), "negative");
  EXPECT_TRUE(recorded(torch::ones({2})).equal(torch::full({2}, 2.0)));
  EXPECT_EQ(recorded.tracing_count(), 2);
}

TEST(HostCall, RefusesResultsThatAreNotAsTheyWereNamed) {
  const auto same = [](const Tensor& x) { return x; };
  const Tensor x = torch::ones({2, 3});
  EXPECT_THAT(what_of([&] { host_call(same, {.shape = {3}}, x); }),
              HasSubstr("host_call: the function returned Float [2, 3], and its HostResult says Float [3]"));
  EXPECT_THAT(what_of([&] {
                host_call(same, {.shape = {2, 3}, .dtype = torch::kDouble}, x);
              }),
              HasSubstr("says Double [2, 3]"));
  EXPECT_THAT(what_of([&] { host_call([](const Tensor&) { return Tensor(); }, {}, x); }),
              HasSubstr("returned no tensor"));
  EXPECT_THAT(what_of([&] { host_call(same, {}, Tensor()); }), HasSubstr("an input is an undefined tensor"));
}

TEST(HostCall, RefusesWhatNeedsAGradient) {
  const auto same = [](const Tensor& x) { return x; };
  const Tensor weight = torch::ones({2}, torch::requires_grad());
  EXPECT_THAT(what_of([&] {
                host_call([](const Tensor&, const Tensor& y) { return y; }, {.shape = {2}}, torch::ones({2}), weight);
              }),
              HasSubstr("no gradient goes through the function, and input 1 needs one; give its detach()"));
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(host_call(same, {.shape = {2}}, weight).equal(weight));
}

TEST(HostCall, IsRefusedInWhatIsSaved) {
  const auto f = [](const Tensor& x) { return host_call(largest_first, {.shape = {4}}, x); };
  const auto save = [&] {
    saved_model::save(
        "never",
        {.signatures = {{"f", saved_model::Signature(f, {.inputs = {saved_model::TensorSpec({.shape = {4}})}})}}});
  };
  EXPECT_THAT(what_of(save), HasSubstr("host_call calls C++ of this program, which cannot be saved"));
}

TEST(InitScope, HappensWhileAFunctionIsRecordedAlone) {
  int calls = 0;
  const auto recorded = function([&](const Tensor& x) {
    const Tensor table = init_scope([&] {
      ++calls;
      Tensor made = torch::zeros({3});
      for (int i = 0; i < 3; ++i) made[i] = made.sum().item<float>() + i;  // reads values
      return made;
    });
    return x * table;
  });
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(recorded(torch::full({3}, i)).equal(torch::tensor({0.F, 1.F, 3.F}) * i));
  EXPECT_EQ(calls, 2);
}

TEST(Print, WritesTheValuesOfEachReplay) {
  std::ostringstream out;
  const auto recorded = function([&](const Tensor& x) {
    const Tensor y = x * 2;
    print(out, "y", y, "of", x.sum(), "and", 0.5);
    return y + 1;
  });
  for (int i = 0; i < 4; ++i) recorded(torch::full({2}, 0.5 * i));
  EXPECT_EQ(out.str(),
            "y [0 0] of 0 and 0.5\n"
            "y [1 1] of 1 and 0.5\n"
            "y [2 2] of 2 and 0.5\n"
            "y [3 3] of 3 and 0.5\n");
}

template <class... Parts>
std::string printed(const Parts&... parts) {
  std::ostringstream out;
  print(out, parts...);
  return out.str();
}

TEST(Print, WritesTensorsOfAllKinds) {
  EXPECT_EQ(printed(), "\n");
  EXPECT_EQ(printed("a", 1, true), "a 1 1\n");
  EXPECT_EQ(printed(torch::arange(10)), "[0 1 2 ... 7 8 9]\n");
  EXPECT_EQ(printed(torch::arange(6)), "[0 1 2 3 4 5]\n");
  EXPECT_EQ(printed(torch::arange(6).view({2, 3})), "[[0 1 2]\n [3 4 5]]\n");
  EXPECT_EQ(printed(torch::arange(4).view({2, 1, 2})), "[[[0 1]]\n\n [[2 3]]]\n");
  EXPECT_EQ(printed(torch::arange(14).view({7, 2})), "[[0 1]\n [2 3]\n [4 5]\n ...\n [8 9]\n [10 11]\n [12 13]]\n");
  EXPECT_EQ(printed(torch::tensor({0.1F, -1e-30F}), torch::tensor(0.1, torch::kDouble)), "[0.1 -1e-30] 0.1\n");
  EXPECT_EQ(printed(torch::tensor({true, false}), torch::empty({0}), Tensor()), "[true false] [] undefined\n");
  EXPECT_EQ(printed(torch::tensor(INFINITY), torch::tensor(NAN), torch::tensor(0.5F, torch::kHalf)), "inf nan 0.5\n");
  EXPECT_EQ(printed(torch::complex(torch::tensor(1.5), torch::tensor(-2.0))), "(1.5,-2)\n");
  EXPECT_EQ(printed(torch::ones({2}, torch::requires_grad())), "[1 1]\n");
}

TEST(Print, OfAVariableOfAMeshWritesItsValue) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Variable weight = strategy.build([] { return variable(torch::arange(3)); });
  EXPECT_EQ(printed(weight), "[0 1 2]\n");
}

}  // namespace
}  // namespace tutti
