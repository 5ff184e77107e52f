// A program with streams of its own, two of each simulated GPU, on which kernels come late: what the library does for
// it comes behind what they were given, and nothing waits for the default streams, which are kept from going on.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/dataset_values.h"
#include "tests/support/fake_nccl.h"
#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_kernels.h"
#include "tests/support/simulated_memory.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/collectives/collective_queue.h"
#include "tutti/collectives/local/local_group.h"
#include "tutti/core/str.h"
#include "tutti/data/dataset.h"
#include "tutti/device/gpu.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/nccl_all_reduce.h"
#include "tutti/distribute/variable.h"
#include "tutti/function/function.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::Each;

constexpr int kSteps = 4;

// Of a program on this many GPUs.
class TwoStreams : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (test_devices_are_cpus()) GTEST_SKIP() << "needs TUTTI_TEST_DEVICE=gpus";
    if (gpu_device(0).is_cuda()) GTEST_SKIP() << "on a real GPU, which can be late, but not be told to be";
    late_.emplace();
    for (int gpu = 0; gpu < kSimulatedDevices; ++gpu) {
      const c10::Stream default_stream = c10::Stream(c10::Stream::DEFAULT, gpu_device(gpu));
      give_stream(default_stream, [hold = hold_] { hold->wait(); });
    }
    go_on_in(0);
  }
  void TearDown() override {
    if (!late_) return;
    for (int gpu = 0; gpu < num_gpus(); ++gpu)
      for (const int index : {0, 1}) simulated_stream_of_program(gpu, index).synchronize();
    current_.reset();
    hold_->count_down();
    for (int gpu = 0; gpu < kSimulatedDevices; ++gpu) c10::Stream(c10::Stream::DEFAULT, gpu_device(gpu)).synchronize();
    late_.reset();
  }

  // What comes is given to the other streams, which are busy, and come behind those of before.
  void change_streams() { go_on_in(1 - index_); }

  int num_gpus() const { return GetParam(); }
  Mesh mesh() const { return Mesh({{"x", num_gpus()}}, test_devices(num_gpus())); }
  static at::Tensor on_host(const at::Tensor& tensor) { return gather(tensor.detach()).cpu(); }

 private:
  void go_on_in(int index) {
    std::vector<c10::Event> before;
    for (int gpu = 0; current_ && gpu < num_gpus(); ++gpu) {
      before.emplace_back(gpu_device(gpu).type());
      before.back().record(simulated_stream_of_program(gpu, index_));
    }
    current_.reset();
    index_ = index;
    std::vector<c10::Stream> streams;
    for (int gpu = 0; gpu < num_gpus(); ++gpu) streams.push_back(simulated_stream_of_program(gpu, index));
    for (size_t gpu = 0; gpu < streams.size(); ++gpu) {
      if (!before.empty()) before[gpu].block(streams[gpu]);
      give_stream(streams[gpu], [gpu] { std::this_thread::sleep_for(gpu % 2 ? 4ms : 1ms); });
    }
    current_.emplace(streams);
  }

  const Watchdog watchdog{60s};
  const std::shared_ptr<std::latch> hold_ = std::make_shared<std::latch>(1);
  std::optional<KernelsAreLate> late_;
  std::optional<c10::MultiStreamGuard> current_;
  int index_ = 0;
};

INSTANTIATE_TEST_SUITE_P(OfGpus, TwoStreams, testing::Values(2, 3, 8));

TEST_P(TwoStreams, AreLate) {
  const int before = num_late_kernels();
  const at::Tensor x = at::ones({4}, gpu_device(0)).add(1).mul_(3), there = x.to(gpu_device(1)) + 1;
  EXPECT_EQ(num_late_kernels() - before, 5);
  EXPECT_FALSE(simulated_stream_of_program(0, 0).query());
  EXPECT_THAT(numbers(there), Each(7));
}

TEST_P(TwoStreams, CollectivesHaveTheSumsOfWhatIsStillComputed) {
  MirroredStrategy strategy({.devices = test_devices(num_gpus())});
  const double n = num_gpus();
  for (int step = 0; step < kSteps; ++step) {
    const auto values = strategy.run([&] {
      const auto context = get_replica_context();
      const at::Tensor own = at::full({2, 3}, context.replica_id_in_sync_group()).add_(step);
      return std::tuple(own, context.all_reduce(ReduceOp::sum, own), context.all_reduce(ReduceOp::mean, own * 2) + 0,
                        context.all_gather(own, 0) + 0);
    });
    const double sum = n * (n - 1) / 2 + n * step;
    PerReplica<Tensor> own = values.transform([](const auto& each) { return std::get<0>(each); });
    for (const auto& [value, all, mean, gathered] : values) {
      EXPECT_THAT(numbers(all), Each(sum)) << step;
      EXPECT_THAT(numbers(mean), Each(2 * sum / n)) << step;
      EXPECT_EQ(numbers(gathered), numbers(strategy.gather(own, 0))) << step;
    }
    change_streams();
    EXPECT_THAT(numbers(strategy.reduce(ReduceOp::sum, own)), Each(sum)) << step;
    for (const Tensor& each : strategy.reduce_to(ReduceOp::sum, own, test_devices(num_gpus())))
      EXPECT_THAT(numbers(each), Each(sum)) << step;
    EXPECT_THAT(numbers(strategy.reduce_to(ReduceOp::mean, own, "CPU:0")[0]), Each(sum / n));
  }
}

TEST_P(TwoStreams, RelayoutsMoveWhatIsStillComputed) {
  const at::Tensor value = at::arange(7 * 9, at::kCPU).view({7, 9});
  std::vector<Mesh> meshes{mesh()};
  if (num_gpus() % 2 == 0)
    meshes.emplace_back(std::vector<MeshDimension>{{"x", 2}, {"y", num_gpus() / 2}}, test_devices(num_gpus()));
  std::vector<Layout> layouts;
  for (const Mesh& mesh : meshes) {
    const bool has_two_axes = mesh.dimensions().size() == 2;
    for (const std::string& first : {std::string(kUnsharded), std::string("x"), std::string("y")})
      for (const std::string& second : {std::string(kUnsharded), std::string("x"), std::string("y")})
        if ((first != second || first == kUnsharded) && (has_two_axes || (first != "y" && second != "y")))
          layouts.push_back(Layout({first, second}, mesh));
  }
  for (const Layout& from : layouts)
    for (const Layout& to : layouts) {
      if (from.mesh() != to.mesh()) continue;
      const at::Tensor late = distribute_tensor(value, from) * 2;
      const at::Tensor moved = relayout(late, to);
      change_streams();
      EXPECT_TRUE(at::equal(on_host(moved + 1), value * 2 + 1)) << from.serialize() + " to " + to.serialize();
    }
}

TEST_P(TwoStreams, PrefetchedBatchesComeToTheCurrentOne) {
  MirroredStrategy strategy({.devices = test_devices(num_gpus())});
  const int64_t rows = int64_t{num_gpus()} * 2;
  const auto dataset = data::from_tensor_slices(at::arange(rows * kSteps, at::kCPU).to(at::kFloat))
                           .map([](const at::Tensor& x) { return x * 2; })
                           .batch(rows)
                           .prefetch(2);
  const auto distributed = strategy.distribute(dataset);
  int64_t next = 0;
  for (const auto& batch : distributed) {
    const auto results = strategy.run([](const at::Tensor& x) { return x + 1; }, batch);
    change_streams();
    for (const at::Tensor& result : results)
      for (const double each : numbers(result)) EXPECT_EQ(each, static_cast<double>(2 * next++ + 1));
  }
  EXPECT_EQ(next, rows * kSteps);
}

// As gradients of processes are summed, beside the backward pass.
TEST_P(TwoStreams, AQueueOfCollectivesComesBehindThem) {
  const FakeNccl fake;
  auto joined = join_by_nccl(local_groups(num_gpus(), {.timeout = 10s}), 10s, [&](int) { return fake.environment(); });
  std::vector<std::unique_ptr<CollectiveQueue>> queues;
  for (auto& group : joined.groups) queues.push_back(std::make_unique<CollectiveQueue>(std::move(group)));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<at::Tensor> values;
    std::vector<std::future<void>> sums;
    for (int gpu = 0; gpu < num_gpus(); ++gpu) {
      values.push_back(at::full({5}, gpu, at::TensorOptions(gpu_device(gpu)).dtype(at::kFloat)).add_(step));
      sums.push_back(queues[static_cast<size_t>(gpu)]->start({.kind = CollectiveKind::all_reduce,
                                                              .count = 5,
                                                              .input = values.back().const_data_ptr(),
                                                              .output = values.back().mutable_data_ptr(),
                                                              .place = BufferPlace::device}));
    }
    for (std::future<void>& sum : sums) sum.get();
    const int wanted = num_gpus() * (num_gpus() - 1) / 2 + num_gpus() * step;
    for (const at::Tensor& value : values)
      EXPECT_EQ(*reinterpret_cast<const float*>(seen_by_kernels(value.const_data_ptr())), wanted) << "it is not there";
    change_streams();
    for (const at::Tensor& value : values) EXPECT_THAT(numbers(value), Each(wanted));
  }
}

// --- training ---

struct Trained {
  at::Tensor weight, bias;
};

at::Tensor batch_of(int step) { return (at::arange(48, at::kCPU).to(at::kFloat).view({16, 3}) - 20 + step).div(32); }
at::Tensor loss_of(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return (x.mm(weight) + bias).sigmoid().square().sum();
}
at::Tensor first_weight() { return at::arange(6, at::kCPU).to(at::kFloat).view({3, 2}).div(4); }

Trained on_one_device() {
  Trained all{first_weight().set_requires_grad(true), at::ones({2}, at::kCPU).set_requires_grad(true)};
  for (int step = 0; step < kSteps; ++step) {
    loss_of(batch_of(step), all.weight, all.bias).backward();
    const at::NoGradGuard no_grad;
    for (at::Tensor* const each : {&all.weight, &all.bias}) {
      each->sub_(each->grad() * 0.125);
      each->mutable_grad().reset();
    }
  }
  return all;
}

void expect_like_one_device(const at::Tensor& weight, const at::Tensor& bias) {
  const Trained wanted = on_one_device();
  EXPECT_TRUE(at::allclose(gather(weight.detach()).cpu(), wanted.weight, 1e-5, 1e-6)) << weight << wanted.weight;
  EXPECT_TRUE(at::allclose(gather(bias.detach()).cpu(), wanted.bias, 1e-5, 1e-6)) << bias << wanted.bias;
}

class Training : public TwoStreams {
 protected:
  static Trained variables_of(MirroredStrategy& strategy) {
    return strategy.build([] { return Trained{variable(first_weight()), variable(at::ones({2}, at::kCPU))}; });
  }
  static void step_by(const Trained& all) {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& each : {all.weight, all.bias}) {
      each.sub_(each.grad() * 0.125);
      each.mutable_grad().reset();
    }
  }
  void expect_steps_outside_like_one_device(MirroredStrategy& strategy) {
    const Trained all = variables_of(strategy);
    for (int step = 0; step < kSteps; ++step) {
      strategy.run([&](const at::Tensor& x) { loss_of(x, all.weight, all.bias).backward(); },
                   strategy.distribute(batch_of(step)));
      change_streams();
      step_by(all);
    }
    expect_like_one_device(all.weight, all.bias);
  }
};

INSTANTIATE_TEST_SUITE_P(OfGpus, Training, testing::Values(2, 4, 8));

TEST_P(Training, OfReplicasThatStepOutside) {
  MirroredStrategy strategy({.devices = test_devices(num_gpus())});
  expect_steps_outside_like_one_device(strategy);
}

TEST_P(Training, OfReplicasThatMeetInBackward) {
  MirroredStrategy strategy({.devices = test_devices(num_gpus())});
  const Trained all = variables_of(strategy);
  for (int step = 0; step < kSteps; ++step) {
    strategy.run(
        [&](const at::Tensor& x) {
          const at::Tensor own = loss_of(x, all.weight, all.bias);
          (get_replica_context().all_reduce(ReduceOp::sum, own) / get_replica_context().num_replicas_in_sync())
              .backward();
        },
        strategy.distribute(batch_of(step)));
    change_streams();
    step_by(all);
  }
  expect_like_one_device(all.weight, all.bias);
}

TEST_P(Training, InGlobalView) {
  const Mesh mesh = this->mesh();
  const at::Tensor weight = distribute_tensor(first_weight(), Layout::replicated(mesh, 2)).set_requires_grad(true);
  const at::Tensor bias =
      distribute_tensor(at::ones({2}, at::kCPU), Layout::replicated(mesh, 1)).set_requires_grad(true);
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor x = distribute_tensor(batch_of(step), Layout({"x", kUnsharded}, mesh));
    loss_of(x, weight, bias).backward();
    change_streams();
    step_by({weight, bias});
  }
  expect_like_one_device(weight, bias);
}

TEST_P(Training, ByNccl) {
  const FakeNccl fake;
  MirroredStrategy strategy(
      {.devices = test_devices(num_gpus()), .cross_device_ops = NcclAllReduce({}, fake.environment())});
  expect_steps_outside_like_one_device(strategy);
}

TEST_P(Training, ByKerasWithinReplicas) {
  const auto train = [&](MirroredStrategy& strategy) {
    const Trained all = variables_of(strategy);
    const keras::optimizers::Adam optimizer({.learning_rate = 0.1});
    for (int step = 0; step < kSteps; ++step) {
      strategy.run(
          [&](const at::Tensor& x) {
            optimizer.apply_gradients(gradients(loss_of(x, all.weight, all.bias), {all.weight, all.bias}),
                                      {all.weight, all.bias});
          },
          strategy.distribute(batch_of(step)));
      change_streams();
    }
    return on_host(all.weight);
  };
  MirroredStrategy on_cpus({.devices = configure_logical_cpus(num_gpus())}),
      on_gpus({.devices = test_devices(num_gpus())});
  const at::Tensor wanted = train(on_cpus), seen = train(on_gpus);
  EXPECT_TRUE(at::allclose(seen, wanted, 1e-5, 1e-6)) << seen << wanted;
}

TEST_P(Training, ByARecordedFunction) {
  MirroredStrategy strategy({.devices = test_devices(num_gpus())});
  const Trained all = variables_of(strategy);
  const auto step_function = function([&](const PerReplica<Tensor>& batch) {
    strategy.run(
        [&](const at::Tensor& x) {
          const auto own = gradients(loss_of(x, all.weight, all.bias), {all.weight, all.bias});
          const at::NoGradGuard no_grad;
          for (const auto& [variable, gradient] : {std::pair(all.weight, own[0]), std::pair(all.bias, own[1])})
            at::Tensor(variable).sub_(get_replica_context().all_reduce(ReduceOp::sum, gradient) * 0.125);
        },
        batch);
    return batch[0] + 0;
  });
  for (int step = 0; step < kSteps; ++step) {
    step_function(strategy.distribute(batch_of(step)));
    change_streams();
  }
  expect_like_one_device(all.weight, all.bias);
}

TEST_P(Training, GoesOnFromACheckpointOfWhatIsStillComputed) {
  const TemporaryFolder folder;
  MirroredStrategy strategy({.devices = test_devices(num_gpus())}), next({.devices = test_devices(num_gpus())}),
      on_cpus({.devices = configure_logical_cpus(3)});
  const auto values_of = [](MirroredStrategy& on, double value) {
    return on.build([&] { return Variable(variable(at::full({5, 2}, value, at::kCPU))); });
  };
  const Variable saved = values_of(strategy, 1), read = values_of(next, 0), of_cpus = values_of(on_cpus, 0);
  const Mesh mesh = this->mesh();
  const Variable divided(distribute_tensor(at::arange(14, at::kCPU).view({7, 2}), Layout({"x", kUnsharded}, mesh))),
      otherwise(distribute_tensor(at::zeros({7, 2}, at::TensorOptions(at::kCPU).dtype(at::kLong)),
                                  Layout({kUnsharded, "x"}, mesh)));
  const at::NoGradGuard no_grad;
  for (int step = 0; step < 2; ++step) {
    at::Tensor(saved).mul_(3);
    at::Tensor(divided).add_(1);
    const auto path = folder.path() / str(step);
    Checkpoint({{"mirrored", saved}, {"divided", divided}}).write(path);
    change_streams();
    Checkpoint({{"mirrored", read}, {"divided", otherwise}}).restore(path).assert_consumed();
    Checkpoint({{"mirrored", of_cpus}}).restore(path).expect_partial();
    EXPECT_THAT(numbers(on_host(read.value() + 1)), Each(step == 0 ? 4 : 10));
    EXPECT_THAT(numbers(on_host(of_cpus.value() + 1)), Each(step == 0 ? 4 : 10));
    EXPECT_TRUE(at::equal(on_host(otherwise.value() + 0), at::arange(14, at::kCPU).view({7, 2}) + 1 + step));
    for (const auto& result : next.run([&] { return local(Tensor(read.value())) + 1; }))
      EXPECT_THAT(numbers(result), Each(step == 0 ? 4 : 10));
  }
}

}  // namespace
}  // namespace tutti
