// What a program does with a module beside training it: saving, loading, cloning, converting, printing.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "tests/support/test_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::equivalence {
namespace {

namespace nn = torch::nn;

class ModuleLife : public testing::Test {
 protected:
  MirroredStrategy strategy_{{.devices = test_devices(3)}};

  static nn::Sequential make() { return nn::Sequential(nn::Linear(3, 4), nn::BatchNorm1d(4), nn::Linear(4, 2)); }
  nn::Sequential meshed() {
    return strategy_.build([] { return make(); });
  }
  // One step, so that an optimizer has state and the buffers of the replicas differ.
  void train(nn::Sequential& net, torch::optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    strategy_.run([&](const Tensor& x) { net->forward(x).square().sum().backward(); },
                  strategy_.distribute(torch::arange(27.F).view({9, 3})));
    optimizer.step();
  }
  static void expect_equal(nn::Module& actual, nn::Module& expected) {
    for (const auto& item : expected.named_parameters())
      EXPECT_TRUE(torch::equal(gather(actual.named_parameters()[item.key()].detach()), gather(item.value().detach())))
          << item.key();
    for (const auto& item : expected.named_buffers())
      EXPECT_TRUE(torch::equal(gather(actual.named_buffers()[item.key()]), gather(item.value()))) << item.key();
  }
};

TEST_F(ModuleLife, AMeshModuleSavesWhatAPlainOneLoads) {
  auto net = meshed();
  torch::optim::Adam optimizer(net->parameters(), 0.1);
  train(net, optimizer);
  std::stringstream file;
  torch::save(net, file);
  auto plain = make();
  torch::load(plain, file);
  EXPECT_FALSE(is_mesh_tensor(plain->parameters()[0]));
  expect_equal(*net, *plain);
}

TEST_F(ModuleLife, APlainModuleSavesWhatAMeshOneLoads) {
  auto plain = make();
  std::stringstream file;
  torch::save(plain, file);
  auto net = meshed();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  train(net, optimizer);
  torch::load(net, file);
  EXPECT_TRUE(is_mesh_tensor(net->parameters()[0]));
  expect_equal(*net, *plain);
  const auto outputs = strategy_.run(  // replicas see what was loaded
      [&] {
        const torch::NoGradGuard no_grad;
        net->eval();
        return net->forward(torch::ones({2, 3}));
      });
  plain->eval();
  EXPECT_TRUE(torch::allclose(outputs[2], plain->forward(torch::ones({2, 3}))));
}

TEST_F(ModuleLife, AnOptimizersStateIsSavedAndLoaded) {
  auto first = meshed();
  torch::optim::Adam saved(first->parameters(), 0.1);
  train(first, saved);
  std::stringstream weights, state;
  torch::save(first, weights);
  torch::save(saved, state);

  auto second = meshed();
  torch::optim::Adam loaded(second->parameters(), 0.1);
  torch::load(second, weights);
  torch::load(loaded, state);
  for (auto* optimizer : {&saved, &loaded}) train(optimizer == &saved ? first : second, *optimizer);
  for (size_t i = 0; i < first->parameters().size(); ++i)
    EXPECT_TRUE(torch::equal(gather(first->parameters()[i].detach()), gather(second->parameters()[i].detach()))) << i;
}

TEST_F(ModuleLife, ACloneMadeInScopeIsAMeshModuleOfItsOwn) {
  auto net = meshed();
  const auto copy = strategy_.build([&] { return std::dynamic_pointer_cast<nn::SequentialImpl>(net->clone()); });
  expect_equal(*copy, *net);
  ASSERT_TRUE(is_mesh_tensor(copy->parameters()[0]));
  {
    const torch::NoGradGuard no_grad;
    copy->parameters()[0].zero_();
  }
  EXPECT_NE(gather(net->parameters()[0].detach()).abs().sum().item<float>(), 0);
}

TEST_F(ModuleLife, ConvertingTheDtypeKeepsAMeshModuleTraining) {
  auto net = meshed();
  net->to(torch::kDouble);
  EXPECT_TRUE(is_mesh_tensor(net->parameters()[0]));
  EXPECT_EQ(net->parameters()[0].scalar_type(), torch::kDouble);
  strategy_.run([&] { net->forward(torch::ones({4, 3}, torch::kDouble)).sum().backward(); });
  EXPECT_EQ(net->parameters()[0].grad().scalar_type(), torch::kDouble);
}

TEST_F(ModuleLife, NamingTheDeviceKeepsAMeshModule) {
  auto net = meshed();
  const Tensor before = gather(net->parameters()[0].detach()).clone();
  net->to(torch::kCPU);
  EXPECT_TRUE(is_mesh_tensor(net->parameters()[0]));
  EXPECT_TRUE(torch::equal(gather(net->parameters()[0].detach()), before));
}

TEST_F(ModuleLife, PrintsAndReadsAsAPlainTensor) {
  const Tensor plain = torch::arange(4.F).view({2, 2});
  const Tensor mesh = distribute_tensor(plain, Layout::batch_sharded(strategy_.mesh(), "replica", 2));
  std::ostringstream a, b;
  a << plain;
  b << mesh;
  EXPECT_EQ(a.str(), b.str());
  EXPECT_EQ(mesh.sum().item<float>(), 6);
  EXPECT_TRUE(torch::equal(mesh.cpu(), plain));
  EXPECT_FALSE(is_mesh_tensor(mesh.cpu()));
}

TEST_F(ModuleLife, EvaluationInGlobalViewUsesTheReplicasAverages) {
  auto net = meshed();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  train(net, optimizer);
  net->eval();
  std::stringstream file;
  torch::save(net, file);
  auto plain = make();
  torch::load(plain, file);
  plain->eval();
  EXPECT_TRUE(torch::allclose(gather(net->forward(torch::ones({2, 3}))), plain->forward(torch::ones({2, 3}))));
}

}  // namespace
}  // namespace tutti::equivalence
