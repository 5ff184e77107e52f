// Strategies on logical parts of one GPU, held to the program without Tutti on the same GPU.

#include "gpu_test.h"
#include "tests/support/autocast.h"

namespace tutti::gpu {
namespace {

namespace nn = torch::nn;

struct Net : nn::Module {
  nn::Conv2d conv{nullptr};
  nn::Linear out{nullptr};

  Net() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(1, 8, 3)));
    out = register_module("out", nn::Linear(8 * 13 * 13, 10));
  }
  Tensor forward(const Tensor& x) { return out(torch::max_pool2d(torch::relu(conv(x)), 2).flatten(1)); }
};

constexpr int64_t kBatch = 32;
constexpr int kSteps = 5;

Tensor loss_of(Net& net, const Tensor& images, const Tensor& labels) {
  return nn::functional::cross_entropy(net.forward(images), labels);
}

std::vector<std::tuple<Tensor, Tensor>> batches() {
  torch::manual_seed(3);
  std::vector<std::tuple<Tensor, Tensor>> all;
  for (int i = 0; i < kSteps; ++i)
    all.emplace_back(torch::randn({kBatch, 1, 28, 28}), torch::randint(10, {kBatch}, torch::kLong));
  return all;
}

struct Trained {
  std::vector<double> losses;
  std::vector<Tensor> weights;
};

Trained plain() {
  torch::manual_seed(5);
  Net net;
  net.to(device_of_plain());
  torch::optim::Adam optimizer(net.parameters(), 1e-3);
  Trained trained;
  for (const auto& [images, labels] : batches()) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(net, images.to(device_of_plain()), labels.to(device_of_plain()));
    loss.backward();
    optimizer.step();
    trained.losses.push_back(loss.item<double>());
  }
  trained.weights = net.parameters();
  return trained;
}

Trained with(Strategy& strategy) {
  torch::manual_seed(5);
  auto net = strategy.build([] { return std::make_shared<Net>(); }, {.gradients = ReduceOp::mean});
  torch::optim::Adam optimizer(net->parameters(), 1e-3);
  Trained trained;
  for (const auto& batch : batches()) {
    optimizer.zero_grad();
    const auto losses = strategy.run(
        [&](const Tensor& images, const Tensor& labels) {
          EXPECT_TRUE(is_gpu(images.device()));
          const Tensor loss = loss_of(*net, images, labels);
          loss.backward();
          return loss.detach();
        },
        strategy.distribute(batch));
    optimizer.step();
    trained.losses.push_back(strategy.reduce(ReduceOp::mean, losses).item<double>());
  }
  trained.weights = net->parameters();
  return trained;
}

void expect_like_plain(const Trained& seen, double tolerance) {
  const Trained wanted = plain();
  for (size_t i = 0; i < wanted.losses.size(); ++i)
    EXPECT_NEAR(seen.losses[i], wanted.losses[i], tolerance) << "loss of step " << i;
  for (size_t i = 0; i < wanted.weights.size(); ++i)
    expect_near(seen.weights[i], wanted.weights[i], tolerance, str("weight ", i));
}

class Strategies : public GpuTest {};

TEST_F(Strategies, OneDeviceTrainsAsTheProgramWithout) {
  OneDeviceStrategy strategy("GPU:0");
  const Trained seen = with(strategy);
  EXPECT_TRUE(is_gpu(seen.weights[0].device()));
  expect_like_plain(seen, 1e-6);
}

TEST_F(Strategies, MirroredTrainsAsTheProgramWithout) {
  for (const int replicas : {1, 2, 4, 8})
    for (const bool merge : {true, false}) {
      SCOPED_TRACE(str(replicas, merge ? " merged" : " separate"));
      MirroredStrategy strategy({.devices = parts(replicas), .mesh = {.merge = merge}});
      expect_like_plain(with(strategy), 2e-5);
    }
}

TEST_F(Strategies, MirroredTakesAllGpusByDefault) {
  MirroredStrategy strategy;
  for (const Device& device : strategy.devices()) EXPECT_EQ(device.type, DeviceType::gpu);
}

// On a machine with several GPUs.
TEST_F(Strategies, NcclSumsBetweenSeveralGpus) {
  const auto gpus = list_physical_devices(DeviceType::gpu);
  if (gpus.size() < 2 || !gpu_device(0).is_cuda()) GTEST_SKIP() << "needs two GPUs, and NCCL";
  MirroredStrategy strategy;
  EXPECT_TRUE(dynamic_cast<const NcclAllReduce*>(&strategy.cross_device_ops())) << "the default";
  expect_like_plain(with(strategy), 2e-5);
  const auto sums = strategy.run([] {
    const auto context = get_replica_context();
    std::vector<Tensor> all;
    for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16, torch::kComplexFloat,
                             torch::kChar, torch::kByte, torch::kInt, torch::kLong, torch::kShort})
      all.push_back(context.all_reduce(ReduceOp::sum,
                                       torch::ones({1000}, gpu_device(context.replica_id_in_sync_group())).to(dtype)));
    return all;
  });
  for (size_t r = 0; r < gpus.size(); ++r)
    for (const Tensor& sum : sums[r]) {
      EXPECT_EQ(sum.device(), gpu_device(static_cast<int>(r)));
      EXPECT_TRUE(torch::equal(sum.cpu(), torch::full_like(sum.cpu(), static_cast<int64_t>(gpus.size()))));
    }
}

TEST_F(Strategies, CentralStorageKeepsParametersOnTheHostOrTheGpu) {
  for (const char* home : {"CPU:0", "GPU:0"}) {
    SCOPED_TRACE(home);
    CentralStorageStrategy strategy({.compute_devices = parts(2), .parameter_device = home});
    const Trained seen = with(strategy);
    EXPECT_EQ(is_gpu(seen.weights[0].device()), std::string(home) == "GPU:0");
    expect_like_plain(seen, 2e-5);
  }
}

TEST_F(Strategies, HostAndGpuTrainTogether) {
  MirroredStrategy strategy({.devices = {"CPU:0", "GPU:0"}});
  torch::manual_seed(5);
  auto net = strategy.build([] { return std::make_shared<Net>(); }, {.gradients = ReduceOp::mean});
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (const auto& batch : batches()) {
    optimizer.zero_grad();
    strategy.run(
        [&](const Tensor& images, const Tensor& labels) {
          EXPECT_EQ(is_gpu(images.device()), is_gpu(net->conv->weight.device()));
          loss_of(*net, images, labels).backward();
        },
        strategy.distribute(batch));
    optimizer.step();
  }
  const auto weights = strategy.local_results(strategy.run([&] { return net->out->weight.detach().clone(); }));
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_TRUE(is_gpu(weights[1].device()));
  expect_near(weights[0], weights[1], 0, "the weights of the two replicas");
}

// Its backward pass waits for the others': that of one device for all must not wait for itself.
TEST_F(Strategies, GradientsGoThroughAllReduce) {
  for (const int replicas : {1, 2, 4}) {
    MirroredStrategy strategy({.devices = parts(replicas)});
    const auto gradients = strategy.run([&] {
      const ReplicaContext context = get_replica_context();
      const Tensor x = torch::full({3}, 1.0 + context.replica_id_in_sync_group(), on_gpu().requires_grad(true));
      context.all_reduce(ReduceOp::sum, x * x).sum().backward();
      return x.grad();
    });
    for (int r = 0; r < replicas; ++r)
      expect_bits(gradients[static_cast<size_t>(r)], torch::full({3}, 2.0 * (1 + r) * replicas), "the gradient");
  }
}

TEST_F(Strategies, NumbersOfReplicasAreThoseOfTheirGenerators) {
  const auto drawn = [](int replicas, bool merge) {
    MirroredStrategy strategy({.devices = parts(replicas), .mesh = {.merge = merge}});
    set_random_seed(17);
    std::vector<Tensor> values;
    for (const Tensor& value : strategy.local_results(strategy.run([] { return torch::rand({4}, on_gpu()); })))
      values.push_back(value.cpu());
    return values;
  };
  const auto two = drawn(2, true), again = drawn(2, true), four = drawn(4, false);
  EXPECT_FALSE(torch::equal(two[0], two[1]));
  for (size_t r = 0; r < 2; ++r) {
    expect_bits(two[r], again[r], "a second run's");
    expect_bits(two[r], four[r], "that of four replicas");
  }
}

TEST_F(Strategies, DropoutDiffersByReplica) {
  MirroredStrategy strategy({.devices = parts(2)});
  set_random_seed(3);
  const auto masks =
      strategy.local_results(strategy.run([] { return torch::dropout(torch::ones({1000}, on_gpu()), 0.5, true); }));
  EXPECT_FALSE(torch::equal(masks[0], masks[1]));
}

TEST_F(Strategies, ATensorTooLargeIsAnErrorOfItsReplicaAndSurvived) {
  MirroredStrategy strategy({.devices = parts(2)});
  const auto fill = [](int64_t bytes) {
    return [bytes] {
      const bool second = get_replica_context().replica_id_in_sync_group() == 1;
      return torch::zeros({second ? bytes : 1}, on_gpu().dtype(torch::kByte)).size(0);
    };
  };
  try {
    strategy.run(fill(int64_t{1} << 50));
    ADD_FAILURE() << "no error";
  } catch (const c10::OutOfMemoryError& error) {
    EXPECT_EQ(replica_of(std::current_exception()), 1);
  }
  EXPECT_EQ(strategy.run(fill(1000))[1], 1000);
}

TEST_F(Strategies, AutocastComputesInHalfPrecision) {
  MirroredStrategy strategy({.devices = parts(2)});
  auto net = strategy.build([] { return nn::Linear(16, 4); });
  const Autocast half(gpu_device(0).type());
  const auto types = strategy.run([&] {
    return static_cast<int>(net->forward(torch::ones({2, 16}, on_gpu())).scalar_type());
  });
  for (const int type : types) EXPECT_EQ(static_cast<at::ScalarType>(type), torch::kHalf);
  EXPECT_EQ(net->forward(torch::ones({2, 16}, on_gpu())).scalar_type(), torch::kHalf);
}

// In float16 with loss scaling, which starts so high that steps are left out.
TEST_F(Strategies, MixedPrecisionWithLossScalingTrainsAsTheProgramWithout) {
  if (!gpu_device(0).is_cuda()) GTEST_SKIP() << "the program without runs on a GPU of LibTorch's own";
  const auto train = [](std::optional<int> replicas) {
    std::optional<MirroredStrategy> strategy;
    if (replicas) strategy.emplace(MirroredStrategyOptions{.devices = parts(*replicas)});
    torch::manual_seed(5);
    auto net = replicas ? strategy->build([] { return std::make_shared<Net>(); }, {.gradients = ReduceOp::mean})
                        : std::make_shared<Net>();
    net->to(gpu_device(0));
    torch::optim::SGD optimizer(net->parameters(), 0.05);
    GradScaler scaler({.init_scale = 1 << 24});
    std::vector<double> seen;
    for (const auto& batch : batches()) {
      optimizer.zero_grad();
      const auto backward = [&](const Tensor& images, const Tensor& labels) {
        Tensor loss;
        {
          const Autocast half(gpu_device(0).type());
          loss = loss_of(*net, images.to(gpu_device(0)), labels.to(gpu_device(0)));
        }
        scaler.scale(loss).backward();
        return loss.detach();
      };
      const Tensor loss = replicas
                              ? strategy->reduce(ReduceOp::mean, strategy->run(backward, strategy->distribute(batch)))
                              : std::apply(backward, batch);
      const bool was_taken = scaler.step(optimizer);
      scaler.update();
      seen.insert(seen.end(), {loss.item<double>(), was_taken ? 1.0 : 0.0, scaler.get_scale()});
    }
    return seen;
  };
  const auto wanted = train({}), seen = train(1), of_two = train(2);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(seen[i], wanted[i], i % 3 == 0 ? 5e-3 : 0) << "number " << i;
  EXPECT_EQ(wanted[1], 0) << "the first step was to be left out";
  EXPECT_EQ(of_two[1], 0);
  EXPECT_NEAR(of_two[0], wanted[0], 5e-3);
}

TEST_F(Strategies, ChannelsLastStays) {
  MirroredStrategy strategy({.devices = parts(2)});
  auto net = strategy.build([] {
    nn::Conv2d conv(nn::Conv2dOptions(3, 8, 3));
    conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
    return conv;
  });
  EXPECT_TRUE(net->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  const auto stays = strategy.run([&] {
    const Tensor x = torch::ones({2, 3, 8, 8}, on_gpu()).contiguous(at::MemoryFormat::ChannelsLast);
    return net->forward(x).is_contiguous(at::MemoryFormat::ChannelsLast);
  });
  for (const bool each : stays) EXPECT_TRUE(each);
}

}  // namespace
}  // namespace tutti::gpu
