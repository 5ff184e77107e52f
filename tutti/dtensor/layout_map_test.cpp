#include "tutti/dtensor/layout_map.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include <memory>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti::dtensor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Mesh make_mesh(const MeshOptions& options = {}) {
  return Mesh({{"batch", 2}, {"model", 2}}, configure_logical_cpus(4), options);
}

// Two products, the first cut by its outputs and the second by its inputs.
struct Net : torch::nn::Module {
  torch::nn::Linear up{nullptr}, down{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};

  Net() {
    up = register_module("up", torch::nn::Linear(4, 6));
    norm = register_module("norm", torch::nn::BatchNorm1d(6));
    down = register_module("down", torch::nn::Linear(6, 2));
  }
  Tensor forward(const Tensor& x) { return down(at::relu(norm(up(x)))); }
};

std::shared_ptr<Net> make_net() { return std::make_shared<Net>(); }

LayoutMap by_columns_then_rows(const Mesh& mesh) {
  return LayoutMap(
      mesh,
      {{"^up.weight$", {"model", kUnsharded}}, {"^up.bias$", {"model"}}, {"^down.weight$", {kUnsharded, "model"}}});
}

std::string layout_text(const Tensor& tensor) { return layout_of(tensor).to_string(); }

template <class Optimizer>
void step(Net& net, Optimizer& optimizer, const Tensor& x) {
  optimizer.zero_grad();
  net.forward(x).square().mean().backward();
  optimizer.step();
}

TEST(LayoutMapKeys, AnEqualKeyGoesBeforeExpressions) {
  const Mesh mesh = make_mesh();
  const LayoutMap map(mesh, {{"weight", {"model", kUnsharded}}, {"a.weight", {kUnsharded, "model"}}});
  EXPECT_EQ(map.find("a.weight"), Layout({kUnsharded, "model"}, mesh));
  EXPECT_EQ(map.find("b.weight"), Layout({"model", kUnsharded}, mesh));
  EXPECT_EQ(map.find("b.bias"), std::nullopt);
  EXPECT_THAT(map.keys(), ElementsAre("weight", "a.weight"));
}

TEST(LayoutMapKeys, AnExpressionIsFoundAnywhereInAName) {
  const Mesh mesh = make_mesh();
  const LayoutMap map(mesh, {{"h.*attention.*weight", {"model", kUnsharded}}, {"^bias$", {"model"}}});
  EXPECT_TRUE(map.find("decoder.h0.attention.qkv.weight_g"));
  EXPECT_TRUE(map.find("bias"));
  EXPECT_FALSE(map.find("h.bias"));
}

TEST(LayoutMapKeys, TwoExpressionsThatMatchOneNameAreRefused) {
  const LayoutMap map(make_mesh(), {{"a", {"model"}}, {"b", {"model"}}});
  EXPECT_THAT(error_of([&] { map.find("ab"); }),
              HasSubstr("invalid_argument: LayoutMap: the keys 'a' and 'b' both match 'ab'"));
}

TEST(LayoutMapKeys, WhatCannotBeAKeyIsRefused) {
  const Mesh mesh = make_mesh();
  LayoutMap map(mesh);
  map.add("a", Layout({"model"}, mesh));
  EXPECT_THAT(error_of([&] { map.add("a", {"batch"}); }), HasSubstr("already_exists: LayoutMap: the key 'a'"));
  EXPECT_THAT(error_of([&] { map.add("(", {"batch"}); }), HasSubstr("the key '(' is no regular expression"));
  EXPECT_THAT(error_of([&] { map.add("b", {"rows"}); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([&] { map.add("b", {kMatch}); }), HasSubstr("leaves open how an axis is cut"));
  const Mesh other({{"model", 2}}, configure_logical_cpus(2));
  EXPECT_THAT(error_of([&] { map.add("b", Layout({"model"}, other)); }), HasSubstr("is of the mesh <model=2>"));
  EXPECT_THAT(error_of([&] { map.add("b", Layout({kUnsharded}, mesh, {"model"})); }), HasSubstr("a sum over devices"));
  EXPECT_THAT(map.keys(), ElementsAre("a"));
}

class LayoutMapTest : public testing::TestWithParam<bool> {
 protected:
  Mesh mesh = make_mesh({.merge = GetParam()});
  LayoutMap map = by_columns_then_rows(mesh);
};

TEST_P(LayoutMapTest, GivesParametersTheirLayoutsAndReplicatesTheOthers) {
  const auto net = map.build(make_net);
  EXPECT_EQ(layout_text(net->up->weight), "[model, unsharded]");
  EXPECT_EQ(layout_text(net->named_parameters()["up.weight"]), "[model, unsharded]");
  EXPECT_EQ(layout_text(net->up->bias), "[model]");
  EXPECT_EQ(layout_text(net->down->weight), "[unsharded, model]");
  EXPECT_EQ(layout_text(net->down->bias), "[unsharded]");
  EXPECT_EQ(layout_text(net->norm->running_mean), "[unsharded]");
  EXPECT_EQ(layout_text(net->norm->num_batches_tracked), "[]");
}

TEST_P(LayoutMapTest, PiecesLetGoOfTheWholeValue) {
  const auto net = map.build(make_net);
  const Tensor& piece = mesh_impl(net->up->weight).read()[0];
  EXPECT_EQ(piece.size(0), GetParam() ? 6 : 3);
  EXPECT_EQ(piece.storage().nbytes(), piece.nbytes());
}

TEST_P(LayoutMapTest, InitialValuesAndTrainingAreThoseOfOneDevice) {
  torch::manual_seed(3);
  const auto plain = make_net();
  torch::manual_seed(3);
  const auto net = map.build(make_net);
  const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
  torch::optim::SGD plain_optimizer(plain->parameters(), options), optimizer(net->parameters(), options);
  for (const auto& parameter : plain->named_parameters())
    EXPECT_TRUE(at::equal(gather(net->named_parameters()[parameter.key()]), parameter.value())) << parameter.key();
  for (int i = 0; i < 3; ++i) {
    const Tensor x = at::randn({8, 4});
    step(*plain, plain_optimizer, x);
    step(*net, optimizer, distribute_tensor(x, Layout({"batch", kUnsharded}, mesh)));
  }
  for (const auto& parameter : plain->named_parameters())
    EXPECT_TRUE(at::allclose(gather(net->named_parameters()[parameter.key()]), parameter.value(), 1e-4, 1e-5))
        << parameter.key();
}

TEST_P(LayoutMapTest, TheStateOfAnOptimizerFollowsItsParameter) {
  const auto net = map.build(make_net);
  torch::optim::Adam optimizer(net->parameters(), 0.01);
  step(*net, optimizer, distribute_tensor(at::ones({8, 4}), Layout({"batch", kUnsharded}, mesh)));
  for (const Tensor& parameter : net->parameters()) {
    const auto& state =
        static_cast<const torch::optim::AdamParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
    EXPECT_EQ(layout_text(state.exp_avg()), layout_text(parameter));
    EXPECT_EQ(layout_text(state.exp_avg_sq()), layout_text(parameter));
  }
}

TEST_P(LayoutMapTest, AGradientInAnotherLayoutLeavesTheParametersLayout) {
  const auto net = map.build(make_net);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(1).momentum(0.5));
  const Tensor before = gather(net->up->weight.detach()).clone();
  for (const std::vector<std::string>& axes :
       {std::vector<std::string>{kUnsharded, "model"}, {kUnsharded, kUnsharded}, {"batch", "model"}}) {
    const Layout layout(axes, mesh);
    net->zero_grad();
    net->up->weight.mutable_grad() = distribute_tensor(at::ones({6, 4}), layout);
    optimizer.step();
    EXPECT_EQ(layout_text(net->up->weight), "[model, unsharded]") << layout.to_string();
  }
  // Momentum 0.5: steps of 1, 1.5 and 1.75.
  EXPECT_TRUE(at::allclose(gather(net->up->weight.detach()), before - 4.25));
}

TEST_P(LayoutMapTest, ACheckpointIsRestoredUnderAnotherMap) {
  const TemporaryFolder folder;
  // The norm takes away what up.bias adds, and all there is in equal rows: rounding errors are left of their gradients,
  // which differ with the layout, and which Adam would make steps of with a small epsilon.
  const auto options = torch::optim::AdamOptions(0.01).eps(1e-3);
  const Tensor rows = at::arange(32, at::kFloat).view({8, 4}).sin();
  const auto train = [&](Net& net, torch::optim::Adam& optimizer, int steps) {
    for (int i = 0; i < steps; ++i) step(net, optimizer, distribute_tensor(rows, Layout({"batch", kUnsharded}, mesh)));
  };
  torch::manual_seed(1);
  const auto net = map.build(make_net);
  torch::optim::Adam optimizer(net->parameters(), options);
  train(*net, optimizer, 2);
  Checkpoint({{"net", *net}, {"optimizer", optimizer}}).write(folder / "c");
  train(*net, optimizer, 2);

  torch::manual_seed(2);
  const auto again = LayoutMap(mesh, {{"(up|down).weight", {kUnsharded, "model"}}}).build(make_net);
  torch::optim::Adam other(again->parameters(), options);
  Checkpoint({{"net", *again}, {"optimizer", other}}).restore(folder / "c").assert_consumed();
  EXPECT_EQ(layout_text(again->up->weight), "[unsharded, model]");
  const auto& state =
      static_cast<const torch::optim::AdamParamState&>(*other.state().at(again->up->weight.unsafeGetTensorImpl()));
  EXPECT_EQ(layout_text(state.exp_avg()), "[unsharded, model]");
  train(*again, other, 2);
  for (const auto& parameter : net->named_parameters())
    EXPECT_TRUE(at::allclose(gather(again->named_parameters()[parameter.key()]), gather(parameter.value()), 1e-4, 1e-6))
        << parameter.key();
}

TEST_P(LayoutMapTest, TakesHoldersAndModulesByValue) {
  const LayoutMap weights(mesh, {{"weight", {"model", kUnsharded}}});
  const auto linear = weights.build([] { return torch::nn::Linear(4, 2); });
  EXPECT_EQ(layout_text(linear->weight), "[model, unsharded]");
  const auto stack =
      weights.build([] { return torch::nn::Sequential(torch::nn::Linear(4, 2), torch::nn::Linear(2, 2)); });
  EXPECT_EQ(layout_text(stack->named_parameters()["1.weight"]), "[model, unsharded]");
  const Net net = map.build([] { return Net(); });
  EXPECT_EQ(layout_text(net.up->weight), "[model, unsharded]");
}

INSTANTIATE_TEST_SUITE_P(Buffers, LayoutMapTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "separate"; });

TEST(LayoutMap, KeysThatMatchNothingAreReported) {
  const Mesh mesh = make_mesh();
  const LayoutMap map(mesh, {{"weight", {"model", kUnsharded}}, {"kernel", {"model"}}, {"gamma", {"model"}}});
  EXPECT_THAT(error_of([&] { map.build([] { return torch::nn::Linear(2, 2); }); }),
              HasSubstr("invalid_argument: LayoutMap: no parameter or buffer matches the keys [kernel, gamma]; the "
                        "module's are weight, bias"));
  EXPECT_THAT(error_of([&] { map.build([] { return std::make_shared<torch::nn::Module>("empty"); }); }),
              HasSubstr("it has no parameter yet"));
  const auto linear = map.build([] { return torch::nn::Linear(2, 2); }, {.allow_unused = true});
  EXPECT_EQ(layout_text(linear->weight), "[model, unsharded]");
}

TEST(LayoutMap, ALayoutOfAnotherRankIsRefusedBeforeAnythingChanges) {
  const Mesh mesh = make_mesh();
  auto linear = LayoutMap(mesh).build([] { return torch::nn::Linear(2, 3); });
  const LayoutMap map(mesh, {{"weight", {"model", kUnsharded}}, {"bias", {"model", kUnsharded}}});
  EXPECT_THAT(
      error_of([&] { map.apply(*linear); }),
      HasSubstr("invalid_argument: LayoutMap: 'bias' has shape [3] and its layout [model, unsharded] has rank 2"));
  EXPECT_EQ(layout_text(linear->weight), "[unsharded, unsharded]");
}

TEST(LayoutMap, ApplyChangesTheLayoutsOfAModuleThatIsOnTheMesh) {
  const Mesh mesh = make_mesh();
  auto linear = LayoutMap(mesh, {{"weight", {"model", kUnsharded}}}).build([] { return torch::nn::Linear(2, 4); });
  const Tensor value = gather(linear->weight.detach());
  LayoutMap(mesh, {{"weight", {kUnsharded, "batch"}}}).apply(*linear);
  EXPECT_EQ(layout_text(linear->weight), "[unsharded, batch]");
  EXPECT_TRUE(at::equal(gather(linear->weight.detach()), value));
  EXPECT_TRUE(linear->weight.requires_grad() && linear->weight.is_leaf());
}

TEST(LayoutMap, AParameterOfTwoNamesHasOneLayout) {
  const Mesh mesh = make_mesh();
  struct Tied : torch::nn::Module {
    Tensor in, out;
    Tied() {
      in = register_parameter("in", at::zeros({4, 4}));
      out = register_parameter("out", in);
    }
  };
  const auto make = [] { return std::make_shared<Tied>(); };
  EXPECT_EQ(layout_text(LayoutMap(mesh, {{"out", {"model", kUnsharded}}}).build(make)->in), "[model, unsharded]");
  const LayoutMap two(mesh, {{"in", {kUnsharded, "model"}}, {"out", {"model", kUnsharded}}});
  EXPECT_THAT(error_of([&] { two.build(make); }),
              HasSubstr("'in' and 'out' are one tensor, and get [unsharded, model]"));
}

TEST(LayoutMap, WhatIsNotOnTheMeshIsRefused) {
  const Mesh mesh = make_mesh();
  const LayoutMap map(mesh, {{"weight", {"model", kUnsharded}}});
  torch::nn::Linear plain(2, 2);
  EXPECT_THAT(error_of([&] { map.apply(*plain); }),
              HasSubstr("failed_precondition: LayoutMap: 'weight' is a plain tensor; make the module in the function"));
  const Mesh other({{"model", 2}}, configure_logical_cpus(2));
  auto elsewhere = LayoutMap(other).build([] { return torch::nn::Linear(2, 2); });
  EXPECT_THAT(error_of([&] { map.apply(*elsewhere); }), HasSubstr("'weight' lies on the mesh <model=2>"));
  EXPECT_THAT(
      error_of([&] { LayoutMap(other).build([&] { return map.build([] { return torch::nn::Linear(2, 2); }); }); }),
      HasSubstr("failed_precondition: LayoutMap: build: called in a scope on the mesh <model=2>"));
}

TEST(LayoutMap, IsForGlobalView) {
  const Mesh mesh = make_mesh();
  const LayoutMap map(mesh, {{"weight", {"model", kUnsharded}}});
  const ThreadViewGuard replica({.replica = 0, .mesh = MeshShape::of(mesh)});
  EXPECT_THAT(error_of([&] { map.build([] { return torch::nn::Linear(2, 2); }); }),
              HasSubstr("failed_precondition: LayoutMap: build: called by replica 0"));
}

}  // namespace
}  // namespace tutti::dtensor
