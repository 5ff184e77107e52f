// Checkpoints between GPU and CPU: what is saved on one is restored on the other bit for bit.
#include "gpu_test.h"
#include "tests/support/temporary_folder.h"

namespace tutti::gpu {
namespace {

class Checkpoints : public GpuTest {};

TEST_F(Checkpoints, GoBetweenGpuAndHost) {
  const TemporaryFolder folder;
  const auto make = [] { return torch::nn::Sequential(torch::nn::Linear(5, 7), torch::nn::Linear(7, 3)); };
  MirroredStrategy gpu({.devices = parts(2)}), cpu({.devices = configure_logical_cpus(3)});
  auto first = gpu.build(make), second = cpu.build(make), third = gpu.build(make);
  torch::optim::Adam adam(first->parameters(), 0.1), adam_of_second(second->parameters(), 0.1);
  first->forward(torch::ones({2, 5}, on_gpu())).sum().backward();
  adam.step();
  Checkpoint saved({{"model", first}, {"optimizer", adam}}), read({{"model", second}, {"optimizer", adam_of_second}});
  saved.write(folder.path() / "gpu");
  second->forward(torch::ones({2, 5})).sum().backward();
  adam_of_second.step();
  read.restore(folder.path() / "gpu").assert_consumed();
  for (size_t i = 0; i < first->parameters().size(); ++i) {
    EXPECT_TRUE(second->parameters()[i].is_cpu());
    expect_bits(second->parameters()[i], first->parameters()[i], "on the host");
  }
  Checkpoint back({{"model", second}}), again({{"model", third}});
  back.write(folder.path() / "cpu");
  again.restore(folder.path() / "cpu").assert_consumed();
  for (size_t i = 0; i < first->parameters().size(); ++i) {
    EXPECT_TRUE(is_gpu(third->parameters()[i].device()));
    expect_bits(third->parameters()[i], first->parameters()[i], "on the GPU again");
  }
}

TEST_F(Checkpoints, GoBetweenLayouts) {
  const TemporaryFolder folder;
  const Mesh gpu({{"x", 2}, {"y", 2}}, parts(4), {.merge = false}),
      cpu({{"x", 3}}, configure_logical_cpus(3), {.merge = false});
  const Tensor value = torch::randn({7, 5});
  Variable saved(dtensor::shard(value, Layout({"x", "y"}, gpu))),
      read(dtensor::shard(torch::zeros({7, 5}), Layout({kUnsharded, "x"}, cpu)));
  Checkpoint from({{"v", saved}}), to({{"v", read}});
  from.write(folder.path() / "v");
  to.restore(folder.path() / "v").assert_consumed();
  expect_bits(read, value, "the value");
}

TEST_F(Checkpoints, LibTorchSavesAndLoads) {
  MirroredStrategy strategy({.devices = parts(2)});
  auto net = strategy.build([] { return torch::nn::Linear(4, 3); }),
       other = strategy.build([] { return torch::nn::Linear(4, 3); });
  std::stringstream stream;
  torch::save(net, stream);
  torch::load(other, stream);
  expect_bits(other->weight, net->weight, "the weight");
  EXPECT_TRUE(is_gpu(other->weight.device()));
}

// torch::save() writes a storage once, which it knows by its place.
TEST_F(Checkpoints, AStorageStaysWhereItIsAsLongAsItsElementsAre) {
  const auto gpus = list_physical_devices(DeviceType::gpu);
  if (gpus.size() < 2) GTEST_SKIP() << "needs two GPUs";
  MirroredStrategy strategy({.devices = {gpus[0], gpus[1]}});
  auto net = strategy.build([] { return torch::nn::Linear(4, 3); }),
       other = strategy.build([] { return torch::nn::Linear(4, 3); });
  torch::nn::utils::vector_to_parameters(torch::nn::utils::parameters_to_vector(net->parameters()).detach(),
                                         net->parameters());
  const auto places = [&] {
    return std::pair(net->weight.storage().unsafeGetStorageImpl(), net->bias.storage().unsafeGetStorageImpl());
  };
  for (int step = 0; step < 3; ++step) {
    strategy.run([&](const Tensor& x) { net->forward(x).square().sum().backward(); },
                 strategy.distribute(torch::arange(24.F).view({6, 4})));
    const auto before = places();
    EXPECT_EQ(places(), before) << step;
    EXPECT_NE(before.first, before.second) << step;
    std::stringstream stream;
    torch::save(net, stream);
    torch::load(other, stream);
    expect_bits(other->weight, net->weight, str("the weight of step ", step));
    expect_bits(other->bias, net->bias, str("the bias of step ", step));
    const torch::NoGradGuard no_grad;
    for (Tensor& p : net->parameters()) p.mul_(0.5);
  }
}

}  // namespace
}  // namespace tutti::gpu
