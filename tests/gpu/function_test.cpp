// Recorded functions of tensors on a GPU.
#include "gpu_test.h"

namespace tutti::gpu {
namespace {

class Functions : public GpuTest {};

// Which numbers a function gives in some calls, each of which has others.
template <class F>
void expect_like_plain(const F& f, const std::vector<Tensor>& first, bool as_graphs, int calls = 8) {
  const auto recorded = function(f, {.gpu_graphs = as_graphs});
  for (int call = 0; call < calls; ++call) {
    std::vector<Tensor> arguments;
    for (const Tensor& argument : first) arguments.push_back(argument + call);
    torch::manual_seed(call);
    const Tensor wanted = f(arguments);
    torch::manual_seed(call);
    const Tensor seen = recorded(arguments);
    EXPECT_EQ(seen.device(), wanted.device());
    expect_bits(seen, wanted, str("the result of call ", call));
  }
  EXPECT_EQ(recorded.tracing_count(), 2);
}

template <class F>
void expect_like_plain(const F& f, const std::vector<Tensor>& first) {
  for (const bool as_graphs : {false, true})
    if (!as_graphs || has_graphs()) expect_like_plain(f, first, as_graphs);
}

TEST_F(Functions, GiveTheNumbersOfPlainCalls) {
  const Tensor x = torch::arange(6.0, on_gpu()).view({2, 3});
  expect_like_plain([](const std::vector<Tensor>& a) { return (a[0] * 2 + 1).relu().t().contiguous(); }, {x});
  expect_like_plain([](const std::vector<Tensor>& a) { return torch::empty_like(a[0]).fill_(3).mul_(a[0]); }, {x});
  expect_like_plain([](const std::vector<Tensor>& a) { return a[0] + torch::ones({3}, a[0].options()); }, {x});
  expect_like_plain([](const std::vector<Tensor>& a) { return torch::cat({a[0], torch::rand_like(a[0])}); }, {x});
  expect_like_plain([](const std::vector<Tensor>& a) { return a[0].mm(a[1].t()).log_softmax(1); }, {x, x / 7});
}

TEST_F(Functions, AttendInReplicas) {
  MirroredStrategy strategy({.devices = parts(2)});
  const auto attend = [&](const PerReplica<Tensor>& batch) {
    return strategy.run([](const Tensor& x) { return at::scaled_dot_product_attention(x * 2, x, x) + 1; }, batch);
  };
  for (const bool as_graphs : {false, true}) {
    if (as_graphs && !has_graphs()) continue;
    const auto recorded = function(attend, {.gpu_graphs = as_graphs});
    for (int call = 0; call < 8; ++call) {
      const auto batch = strategy.distribute(torch::arange(192.0).view({4, 2, 6, 4}) / (100 + call));
      const auto seen = recorded(batch), wanted = attend(batch);
      for (size_t r = 0; r < 2; ++r) expect_bits(seen[r], wanted[r], str("replica ", r, "'s result of call ", call));
    }
  }
}

TEST_F(Functions, CopyBetweenHostAndGpu) {
  const Tensor x = torch::arange(6.0, on_gpu()), y = torch::arange(6.0);
  expect_like_plain([](const std::vector<Tensor>& a) { return (a[0].cpu() + a[1]).to(a[0].device()) * 2; }, {x, y});
  expect_like_plain([](const std::vector<Tensor>& a) { return a[0].cpu() * a[1]; }, {x, y});
  const auto upload = function([](const Tensor& pinned) { return pinned.to(gpu_device(0), /*non_blocking=*/true); });
  for (int call = 0; call < 60; ++call) {
    const Tensor seen = upload((torch::arange(4096.0) + call).pin_memory().slice(0, 1024));
    torch::full({4096}, -1.0).pin_memory();  // in the memory that was pinned before, if it is free
    expect_bits(seen, torch::arange(1024.0, 4096.0) + call, "what was copied");
  }
}

TEST_F(Functions, OfOtherDevicesAreOthers) {
  const auto f = function([](const Tensor& x) { return x * 2; });
  for (int call = 0; call < 4; ++call) {
    EXPECT_TRUE(f(torch::ones({3})).is_cpu());
    EXPECT_EQ(f(torch::ones({3}, on_gpu())).device(), gpu_device(0));
  }
  EXPECT_EQ(f.tracing_count(), 4);
}

TEST_F(Functions, GoThroughGradientsInsideAndOutside) {
  const Tensor w = torch::arange(3.0, on_gpu()).requires_grad_();
  expect_like_plain(
      [&](const std::vector<Tensor>& a) {
        const Tensor loss = (a[0] * w).square().sum();
        return torch::autograd::grad({loss}, {w})[0];
      },
      {torch::ones({2, 3}, on_gpu())});
  const auto f = function([](const Tensor& x) { return (x * x).sum(); });
  for (int call = 0; call < 5; ++call) {
    const Tensor x = (torch::arange(3.0, on_gpu()) + call).requires_grad_();
    f(x).backward();
    expect_bits(x.grad(), x.detach() * 2, "the gradient");
  }
}

TEST_F(Functions, UpdateAModuleAndItsOptimizer) {
  const auto train = [&](bool in_function) {
    torch::manual_seed(7);
    torch::nn::Linear net(4, 2);
    for (Tensor* parameter : {&net->weight, &net->bias})
      *parameter = parameter->detach().to(gpu_device(0)).requires_grad_();
    torch::optim::SGD optimizer({net->weight, net->bias}, torch::optim::SGDOptions(0.1).momentum(0.9));
    const auto step = [&](const Tensor& x) {
      optimizer.zero_grad();
      const Tensor loss = net->forward(x).square().mean();
      loss.backward();
      optimizer.step();
      return loss.detach();
    };
    const auto f = function(step);
    std::vector<double> losses;
    for (int i = 0; i < 6; ++i) {
      const Tensor x = torch::full({3, 4}, i + 1.0, on_gpu());
      losses.push_back((in_function ? f(x) : step(x)).template item<double>());
    }
    return losses;
  };
  EXPECT_EQ(train(true), train(false));
}

TEST_F(Functions, BranchAndRepeatByWhatAGpuComputes) {
  expect_like_plain(
      [](const std::vector<Tensor>& a) {
        return cond(
            a[0].sum() > 8, [&] { return a[0] * 2; }, [&] { return a[0] - 1; });
      },
      {torch::ones({3}, on_gpu())});
  expect_like_plain(
      [](const std::vector<Tensor>& a) {
        return while_loop([](const Tensor& x) { return x.sum() < 100; }, [](const Tensor& x) { return x * 3; }, a[0]);
      },
      {torch::ones({3}, on_gpu())});
}

TEST_F(Functions, OfReplicasMakeTensorsOnTheirGpu) {
  if (list_physical_devices(DeviceType::gpu).size() < 2) GTEST_SKIP() << "needs two GPUs";
  MirroredStrategy strategy({.devices = {"GPU:0", "GPU:1"}, .cross_device_ops = ReductionToOneDevice()});
  const torch::TensorOptions current(gpu_device(0).type());  // of no index
  const auto step = [&](const PerReplica<Tensor>& batch) {
    return strategy.run(
        [&](const Tensor& x) {
          const Tensor y = x * torch::ones({3}, current) + torch::arange(3.0).to(current);
          EXPECT_EQ(y.device(), gpu_device(get_replica_context().replica_id_in_sync_group()));
          return y;
        },
        batch);
  };
  const auto recorded = function(step);
  for (int call = 0; call < 5; ++call) {
    const auto batch = strategy.distribute(torch::full({4, 3}, call + 1.0f));
    const auto wanted = step(batch), seen = recorded(batch);
    for (size_t r = 0; r < 2; ++r) expect_bits(seen[r], wanted[r], "the replica's result");
  }
}

TEST_F(Functions, ReadNoNumberOfAGpu) {
  const auto f = function([](const Tensor& x) { return x * x.sum().item<float>(); });
  EXPECT_THROW(f(torch::ones({3}, on_gpu())), Error);
}

TEST_F(Functions, SeeWhoWorksOnMemoryThatIsAGpus) {
  const auto f = function([](const Tensor& x) {
    const Tensor y = torch::empty_like(x);
    EXPECT_NE(y.mutable_data_ptr(), nullptr);
    return x + 1;
  });
  EXPECT_THROW(f(torch::ones({3}, on_gpu())), std::exception);
}

// Of replicas that are trained by a step: plain, recorded, or recorded as graphs.
std::vector<double> losses_of_replicas(const std::vector<Device>& devices, bool in_function, bool as_graphs) {
  MirroredStrategy strategy({.devices = devices, .cross_device_ops = ReductionToOneDevice()});
  torch::manual_seed(7);
  auto net = strategy.build([] { return torch::nn::Linear(10, 3); });
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const auto step = [&](const PerReplica<std::tuple<Tensor, Tensor>>& batch) {
    const auto each = strategy.run(
        [&](const Tensor& x, const Tensor& y) {
          const Tensor loss = torch::cross_entropy_loss(net->forward(x.tanh() * 2 + x), y);
          loss.backward();
          return loss.detach();
        },
        batch);
    optimizer.step();
    optimizer.zero_grad();
    return strategy.reduce(ReduceOp::mean, each);
  };
  const auto f = function(step, {.gpu_graphs = as_graphs});
  std::vector<double> losses;
  torch::manual_seed(11);
  for (int i = 0; i < 9; ++i) {
    const auto batch = strategy.distribute(std::tuple(torch::randn({8, 10}), torch::randint(3, {8}, torch::kLong)));
    losses.push_back((in_function ? f(batch) : step(batch)).template item<double>());
  }
  return losses;
}

TEST_F(Functions, TrainReplicasAsPlainStepsDo) {
  std::vector<std::vector<Device>> meshes = {parts(2)};
  if (list_physical_devices(DeviceType::gpu).size() > 1) meshes.push_back({"GPU:0", "GPU:1"});
  for (const std::vector<Device>& devices : meshes) {
    const std::vector<double> plain = losses_of_replicas(devices, false, false);
    EXPECT_EQ(losses_of_replicas(devices, true, false), plain);
    if (!has_graphs()) continue;
    EXPECT_EQ(losses_of_replicas(devices, true, true), plain);
  }
}

}  // namespace
}  // namespace tutti::gpu
