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

// Of the program without, with the steps that were taken: in each three numbers the second is 1.
std::vector<double> losses_in_float32(const std::vector<double>& steps) {
  torch::manual_seed(5);
  Net net;
  net.to(device_of_plain());
  torch::optim::SGD optimizer(net.parameters(), 0.05);
  std::vector<double> losses;
  for (const auto& [images, labels] : batches()) {
    optimizer.zero_grad();
    const Tensor loss = loss_of(net, images.to(device_of_plain()), labels.to(device_of_plain()));
    loss.backward();
    if (steps[3 * losses.size() + 1] == 1) optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

// In float16 with loss scaling, which starts so high that steps are left out. A simulated GPU computes without Tutti
// what the CPU does, which autocast leaves alone: there what a strategy of one replica does is held to.
TEST_F(Strategies, MixedPrecisionWithLossScalingTrainsAsTheProgramWithout) {
  const auto train = [](Strategy* strategy) {
    torch::manual_seed(5);
    auto net = strategy ? strategy->build([] { return std::make_shared<Net>(); }, {.gradients = ReduceOp::mean})
                        : std::make_shared<Net>();
    if (!strategy) net->to(gpu_device(0));
    torch::optim::SGD optimizer(net->parameters(), 0.05);
    GradScaler scaler({.init_scale = 1 << 24, .backoff_factor = 1.0 / 64});
    std::vector<double> seen;
    for (const auto& batch : batches()) {
      optimizer.zero_grad();
      const auto backward = [&](const Tensor& images, const Tensor& labels) {
        Tensor loss;
        {
          const Autocast half(gpu_device(0).type());
          const c10::Device device = net->out->weight.device();
          loss = loss_of(*net, images.to(device), labels.to(device));
          EXPECT_EQ(net->forward(images.to(device)).scalar_type(), torch::kHalf);
        }
        scaler.scale(loss).backward();
        return loss.detach();
      };
      const Tensor loss = strategy
                              ? strategy->reduce(ReduceOp::mean, strategy->run(backward, strategy->distribute(batch)))
                              : std::apply(backward, batch);
      const bool was_taken = scaler.step(optimizer);
      scaler.update();
      seen.insert(seen.end(), {loss.item<double>(), was_taken ? 1.0 : 0.0, scaler.get_scale()});
    }
    return seen;
  };
  MirroredStrategy one({.devices = parts(1)}), two({.devices = parts(2)});
  const auto of_one = train(&one), of_two = train(&two), wanted = gpu_device(0).is_cuda() ? train(nullptr) : of_one;
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(of_one[i], wanted[i], i % 3 == 0 ? 5e-3 : 0) << "number " << i;
  EXPECT_EQ(wanted[1], 0) << "the first step was to be left out";
  EXPECT_EQ(of_two[1], 0);
  EXPECT_NEAR(of_two[0], wanted[0], 5e-3);
  const std::vector<double> in_float32 = losses_in_float32(of_one);
  for (size_t i = 0; i < in_float32.size(); ++i) EXPECT_NEAR(of_one[3 * i], in_float32[i], 2e-2) << "loss " << i;
  EXPECT_EQ(wanted[3 * kSteps - 5], 1) << "the last but one was to be taken";
  const auto gpus = list_physical_devices(DeviceType::gpu);
  if (gpus.size() < 2) return;
  MirroredStrategy apart({.devices = {gpus[0], gpus[1]}});
  const auto of_cards = train(&apart);
  for (size_t i = 0; i < of_two.size(); ++i)
    EXPECT_NEAR(of_cards[i], of_two[i], i % 3 == 0 ? 5e-3 : 0) << "number " << i;
}

TEST_F(Strategies, ChannelsLastTrainsAsTheProgramWithout) {
  const auto gpus = list_physical_devices(DeviceType::gpu);
  std::vector<std::vector<Device>> all{parts(1), parts(2)};
  if (gpus.size() > 1) all.push_back({gpus[0], gpus[1]});
  constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;
  const auto net_of = [] {
    nn::Sequential net(nn::Conv2d(3, 8, 3), nn::BatchNorm2d(8), nn::ReLU(), nn::Conv2d(8, 4, 3));
    for (Tensor& parameter : net->parameters())
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(kChannelsLast));
    return net;
  };
  const auto batch_of = [](int step) {
    return (torch::arange(4 * 3 * 8 * 8.0).view({4, 3, 8, 8}) * 0.37 + step).sin().contiguous(kChannelsLast);
  };
  const auto loss_of = [](nn::Sequential& net, const Tensor& x) {
    const Tensor y = net->forward(x);
    EXPECT_TRUE(y.is_contiguous(kChannelsLast));
    return y.square().mean();
  };
  torch::manual_seed(5);
  nn::Sequential plain = net_of();
  plain->eval();  // a batch norm of a replica is of its own batch
  plain->to(device_of_plain());
  torch::optim::SGD optimizer(plain->parameters(), 0.1);
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    loss_of(plain, batch_of(step).to(device_of_plain())).backward();
    optimizer.step();
  }
  for (const std::vector<Device>& devices : all) {
    MirroredStrategy strategy({.devices = devices});
    torch::manual_seed(5);
    nn::Sequential net = strategy.build(net_of, {.gradients = ReduceOp::mean});
    net->eval();
    torch::optim::SGD own(net->parameters(), 0.1);
    for (int step = 0; step < kSteps; ++step) {
      own.zero_grad();
      strategy.run(
          [&](const Tensor& x) {
            EXPECT_TRUE(x.is_contiguous(kChannelsLast));
            loss_of(net, x).backward();
          },
          strategy.distribute(batch_of(step)));
      own.step();
    }
    for (size_t i = 0; i < plain->parameters().size(); ++i) {
      const Tensor seen = net->parameters()[i], wanted = plain->parameters()[i];
      expect_near(seen, wanted, 2e-5, str("parameter ", i, " on ", devices.size(), " devices"));
      EXPECT_TRUE(seen.dim() != 4 || seen.is_contiguous(kChannelsLast)) << "parameter " << i;
    }
  }
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
