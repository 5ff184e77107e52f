// Recorded functions whose calls on a GPU are a graph, which is launched at once.
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>

#include "gpu_test.h"
#include "tests/support/collected_warnings.h"
#include "tests/support/simulated_graph.h"
#include "tutti/tensor/copy_on_write.h"

namespace tutti::gpu {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kCallsBefore = 4;  // two recordings, and two replays

class Graphs : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && !has_graphs()) GTEST_SKIP() << "needs libtutti_cuda.so";
  }
  // How many graphs `f` launches; on a GPU that is not simulated nobody counts, and `wanted` is returned.
  template <class F>
  static int launches_of(const F& f, int wanted) {
    const int before = num_simulated_launches();
    f();
    return gpu_device(0).is_cuda() ? wanted : num_simulated_launches() - before;
  }
  template <class F>
  static auto as_graph(const F& f) {
    return function(f, {.name = "f", .gpu_graphs = true});
  }

  CollectedWarnings warnings_;
};

Tensor of_call(int call) { return torch::arange(12.0, on_gpu()).view({3, 4}) + call; }

Tensor six_steps(const Tensor& x) { return ((x * 2 + 1).relu().mm(x.t()).exp() - 3).sum(1); }

TEST_F(Graphs, GiveResultsThatLaterCallsLeaveAlone) {
  const auto f = as_graph(six_steps);
  std::vector<Tensor> seen;
  for (int call = 0; call < kCallsBefore; ++call) seen.push_back(f(of_call(call) / 99));
  const auto call_more = [&] {
    for (int call = kCallsBefore; call < 10; ++call) seen.push_back(f(of_call(call) / 99));
  };
  EXPECT_EQ(launches_of(call_more, 6), 6);
  for (int call = 0; call < 10; ++call)
    expect_bits(seen[static_cast<size_t>(call)], six_steps(of_call(call) / 99), str("the result of call ", call));
  EXPECT_THAT(warnings_.lines(), IsEmpty());
}

TEST_F(Graphs, WriteToWhatTheyCapture) {
  const auto run = [&](bool recorded) {
    const Tensor state = torch::zeros({3, 4}, on_gpu());
    const auto step = [&](const Tensor& x) {
      state.mul_(0.5).add_(x).sub_(1);
      return (state * state).sum(0) + 1;
    };
    const auto f = as_graph(step);
    std::vector<Tensor> results;
    for (int call = 0; call < 9; ++call) {
      if (call == 6) state.fill_(7);  // between two calls
      results.push_back(recorded ? f(of_call(call)) : step(of_call(call)));
    }
    results.push_back(state.clone());
    return torch::stack({results[4], results[5], results[8], results[9].sum(0)});
  };
  expect_bits(run(true), run(false), "what the calls gave and left");
}

TEST_F(Graphs, WriteToArgumentsThatLieWhereTheyLay) {
  const auto step = [](const Tensor& x) { x.mul_(2).add_(1).relu_().sub_(3); };
  const auto f = as_graph([&](const Tensor& x) { return step(x), x.sum(); });
  const Tensor x = of_call(0), wanted = of_call(0), wide = torch::zeros({3, 8}, on_gpu());
  const auto run = [&] {
    for (int call = 0; call < 8; ++call) {
      f(x);
      step(wanted);
    }
  };
  EXPECT_EQ(launches_of(run, 4), 4);
  expect_bits(x, wanted, "the argument");
  EXPECT_THAT(warnings_.lines(), IsEmpty());
  std::vector<Tensor> others;  // each in other memory
  for (int call = 0; call < 12; ++call) {
    const Tensor other = others.emplace_back(of_call(call)), plain = of_call(call);
    f(other);
    step(plain);
    expect_bits(other, plain, str("argument ", call));
  }
  EXPECT_THAT(warnings_.lines(),
              ElementsAre(AllOf(HasSubstr("f: call 0, aten::mul_.Scalar, and 4 behind it are no part of a "
                                          "graph of the GPU"),
                                HasSubstr("lies elsewhere in each run"))));
}

TEST_F(Graphs, LeaveWhatLiesBetweenTheElementsOfAnArgument) {
  const auto f = as_graph([](const Tensor& x) { return six_steps(x.add_(1).mul_(0.01)); });
  for (int call = 0; call < 8; ++call) {
    const Tensor wide = torch::full({3, 8}, 5.0, on_gpu());
    f(wide.slice(1, 2, 6));
    EXPECT_TRUE(on_host(wide.slice(1, 6)).eq(5).all().item<bool>());
  }
}

TEST_F(Graphs, SeeAnArgumentInTheMemoryThatTheyWrite) {
  const auto run = [&](bool recorded) {
    const Tensor state = torch::zeros({3, 4}, on_gpu());
    const auto step = [&](const Tensor& x) {
      state.add_(1).mul_(0.5);
      return six_steps(x * 0.3);
    };
    const auto f = as_graph(step);
    Tensor last;
    for (int call = 0; call < 8; ++call) last = recorded ? f(state.alias()) : step(state.alias());
    return last;
  };
  expect_bits(run(true), run(false), "what was read after it was written");
}

TEST_F(Graphs, AreMadeAnewWhereMemoryWasReplaced) {
  Tensor state = torch::ones({3, 4}, on_gpu());
  const auto f = as_graph([&](const Tensor& x) { return six_steps((x + state).mul(0.01)); });
  for (int call = 0; call < 14; ++call) {
    if (call == 7) {
      const torch::NoGradGuard no_grad;
      state.set_data(torch::full({3, 4}, 3.0, on_gpu()));
    }
    expect_bits(f(of_call(call)), six_steps((of_call(call) + state).mul(0.01)), str("the result of call ", call));
  }
}

TEST_F(Graphs, LeaveCopiesAloneThatShareTheirMemory) {
  const auto run = [&](bool recorded) {
    const Tensor state = torch::ones({3, 4}, on_gpu());
    const auto step = [&](const Tensor& x) { return state.mul_(0.5).add_(x).sub_(1).sum(); };
    const auto f = as_graph(step);
    std::vector<Tensor> copies;
    for (int call = 0; call < 24; ++call) {
      recorded ? f(of_call(call)) : step(of_call(call));
      if (call % 5 < 2) copies.push_back(share_or_copy(state));
    }
    return torch::stack(copies);
  };
  expect_bits(run(true), run(false), "what the copies hold");
  EXPECT_THAT(warnings_.lines(), IsEmpty());
}

// On a simulated GPU.
struct LateLaunches {
  LateLaunches() { hold_up_simulated_launches(std::chrono::milliseconds(2)); }
  ~LateLaunches() { hold_up_simulated_launches(std::chrono::milliseconds(0)); }
};

TEST_F(Graphs, FollowEachOtherFromStreamToStream) {
  const c10::impl::VirtualGuardImpl devices(gpu_device(0).type());
  const c10::Stream first = devices.getStream(gpu_device(0));
  const c10::Stream other = devices.getStreamFromGlobalPool(gpu_device(0), false);
  const LateLaunches late;
  const Tensor state = torch::zeros({3, 4}, on_gpu());
  const auto f = as_graph([&](const Tensor& x) { state.mul_(0.5).add_(x).sub_(0.25).mul_(2).add_(x); });
  std::vector<Tensor> arguments;
  for (int call = 0; call < 20; ++call) arguments.push_back(torch::full({3, 4}, 0.01 * call, on_gpu()));
  for (size_t call = 0; call < 20; ++call) {
    const c10::Stream& stream = call % 3 == 1 ? other : first;
    const c10::StreamGuard guard(stream);
    f(arguments[call]);
    if (call < kCallsBefore) devices.synchronizeStream(stream);  // no graph yet: the order of streams is the caller's
  }
  for (const c10::Stream& stream : {first, other}) devices.synchronizeStream(stream);
  const Tensor plain = torch::zeros({3, 4}, on_gpu());
  for (const Tensor& x : arguments) plain.mul_(0.5).add_(x).sub_(0.25).mul_(2).add_(x);
  expect_bits(state, plain, "what the calls left");
}

TEST_F(Graphs, AreThereUntilTheGpuHasDoneThem) {
  const c10::impl::VirtualGuardImpl devices(gpu_device(0).type());
  const c10::Stream other = devices.getStreamFromGlobalPool(gpu_device(0), false);
  const LateLaunches late;
  const Tensor state = torch::zeros({3, 4}, on_gpu()), x = of_call(1) / 99, plain = torch::zeros({3, 4}, on_gpu());
  const auto step = [](const Tensor& to, const Tensor& by) { to.add_(((by * 2 + to).sin() + 1).cos() * by); };
  std::vector<Tensor> others;
  for (int round = 0; round < 5; ++round) {
    {
      const auto f = as_graph([&] { step(state, x); });
      for (int call = 0; call < 6; ++call) f();
    }
    const c10::StreamGuard guard(other);  // where what was freed is used at once
    for (int i = 0; i < 8; ++i) others.push_back(torch::full({3, 4}, 7.0, on_gpu()));
  }
  for (int call = 0; call < 30; ++call) step(plain, x);
  expect_bits(state, plain, "what the calls left");
  devices.synchronizeStream(other);
  for (const Tensor& tensor : others) EXPECT_TRUE(on_host(tensor).eq(7).all().item<bool>());
}

TEST_F(Graphs, HaveNoDrawsAndNoCopiesToTheHost) {
  const auto step = [](const Tensor& x) {
    const Tensor scaled = (x * 2 + 1).relu() / 9 - 1;
    const Tensor noisy = scaled + torch::rand_like(scaled);
    const Tensor there = six_steps(noisy * 0.1).cpu() + 1;
    return six_steps(there.to(x.device()).view({1, 3}) * 0.001);
  };
  const auto f = as_graph(step);
  for (int call = 0; call < 8; ++call) {
    torch::manual_seed(call);
    const Tensor wanted = step(of_call(call));
    torch::manual_seed(call);
    Tensor seen;
    const int wanted_launches = call < kCallsBefore ? 0 : 3;
    EXPECT_EQ(launches_of([&] { seen = f(of_call(call)); }, wanted_launches), wanted_launches);
    expect_bits(seen, wanted, str("the result of call ", call));
  }
  EXPECT_THAT(warnings_.lines(), IsEmpty());
}

// What a GPU does between two sums over the GPUs is one graph of its own.
TEST_F(Graphs, AreSegmentsBetweenTheSumsOfSeveralGpus) {
  const auto gpus = list_physical_devices(DeviceType::gpu);
  if (gpus.size() < 2) GTEST_SKIP() << "needs two GPUs";
  for (const size_t n : {size_t{2}, std::min<size_t>(gpus.size(), 4)})
    for (const int num_sums : {0, 1, 3}) {
      MirroredStrategy strategy({.devices = std::vector(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(n))});
      const auto step = [&](const PerReplica<Tensor>& batch) {
        return strategy.run(
            [&](const Tensor& x) {
              Tensor y = (x * 2 + 1).relu() / 9 - 1;
              for (int i = 0; i < num_sums; ++i) {
                y = get_replica_context().all_reduce(ReduceOp::sum, y);
                y = (y * 0.5 + 1).sin() / 3 - x;
              }
              return y;
            },
            batch);
      };
      const auto f = as_graph(step);
      for (int call = 0; call < 8; ++call) {
        const auto batch = strategy.distribute(torch::arange(24.0).view({12, 2}) / 7 + call);
        const int wanted_launches = call < kCallsBefore ? 0 : static_cast<int>(n) * (num_sums + 1);
        std::optional<PerReplica<Tensor>> seen;
        EXPECT_EQ(launches_of([&] { seen = f(batch); }, wanted_launches), wanted_launches)
            << call << " of " << n << " GPUs with " << num_sums;
        const auto wanted = step(batch);
        for (size_t r = 0; r < n; ++r) expect_bits((*seen)[r], wanted[r], str("the result of replica ", r));
      }
    }
}

TEST_F(Graphs, GoOnWithoutACallThatWaitsForTheGpu) {
  const auto step = [](const Tensor& x) {
    const Tensor y = six_steps(x / 99);
    y.index_put_({y > 1}, torch::zeros({}, y.options()));
    return (y * 2 + 1).relu().exp().log() - y;
  };
  const auto masked = [&](const Tensor& x) {
    const Tensor y = x / 99, all = torch::ones({3, 4}, y.options()) > 0;
    const Tensor filled = (y * 2 + 1).relu().exp().index_put({all}, torch::arange(12.0, y.options()));
    return (filled * 2 + 1).relu().exp().log() - filled;
  };
  const auto f = as_graph(masked);
  const auto g = as_graph(step);
  for (int call = 0; call < 12; ++call) {
    expect_bits(f(of_call(call)), masked(of_call(call)), str("the result of call ", call));
    expect_bits(g(of_call(call)), step(of_call(call)), str("the other result of call ", call));
  }
  EXPECT_EQ(launches_of([&] { f(of_call(12)); }, 2), 2);
  EXPECT_THAT(warnings_.lines(), Contains(AllOf(HasSubstr("index_put"), HasSubstr("is no part of a graph"))));
}

TEST_F(Graphs, GoThroughGradientsInsideAndOutside) {
  const auto loss_of = [](const Tensor& x, const Tensor& w) { return ((x * w).relu() + w).square().mean().exp(); };
  const Tensor w = (torch::arange(4.0, on_gpu()) / 9).requires_grad_();
  const auto inside = as_graph([&](const Tensor& x) { return torch::autograd::grad({loss_of(x, w)}, {w})[0]; });
  const auto outside = as_graph([&](const Tensor& x) { return loss_of(x, w); });
  for (int call = 0; call < 10; ++call) {
    const Tensor x = of_call(call) / 20, wanted = torch::autograd::grad({loss_of(x, w)}, {w})[0];
    expect_bits(inside(x), wanted, str("the gradient of call ", call));
    expect_bits(torch::autograd::grad({outside(x)}, {w})[0], wanted, str("the gradient through call ", call));
  }
}

template <class Optimizer, class Options>
std::vector<double> losses_of_training(bool as_graph, const Options& options, bool accumulates) {
  torch::manual_seed(7);
  torch::nn::Linear net(4, 6), out(6, 2);
  std::vector<Tensor> parameters;
  for (Tensor* parameter : {&net->weight, &net->bias, &out->weight, &out->bias})
    parameters.push_back(*parameter = parameter->detach().to(gpu_device(0)).requires_grad_());
  Optimizer optimizer(parameters, options);
  const auto step = [&](const Tensor& x) {
    optimizer.zero_grad(/*set_to_none=*/!accumulates);
    const Tensor loss = out(net(x).relu()).square().mean();
    loss.backward();
    if (accumulates) (loss.detach() * 0 + out(net(x * 2)).mean()).backward();
    optimizer.step();
    return loss.detach();
  };
  const auto f = function(step, {.gpu_graphs = as_graph});
  std::vector<double> losses;
  for (int i = 0; i < 10; ++i) {
    const Tensor x = torch::full({3, 4}, i + 1.0, on_gpu());
    losses.push_back((as_graph ? f(x) : step(x)).template item<double>());
  }
  return losses;
}

TEST_F(Graphs, TrainAsPlainStepsDo) {
  for (const bool accumulates : {false, true}) {
    const torch::optim::SGDOptions sgd = torch::optim::SGDOptions(0.01).momentum(0.9);
    EXPECT_EQ(losses_of_training<torch::optim::SGD>(true, sgd, accumulates),
              losses_of_training<torch::optim::SGD>(false, sgd, accumulates));
    const torch::optim::RMSpropOptions rms(0.01);
    EXPECT_EQ(losses_of_training<torch::optim::RMSprop>(true, rms, accumulates),
              losses_of_training<torch::optim::RMSprop>(false, rms, accumulates));
  }
}

}  // namespace
}  // namespace tutti::gpu
