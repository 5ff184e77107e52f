// On GPUs, which are simulated where LibTorch has none: what the simulated ones are, and what is different on GPUs.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <latch>
#include <thread>

#include "tests/support/dataset_values.h"
#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_kernels.h"
#include "tests/support/simulated_memory.h"
#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/data/dataset.h"
#include "tutti/device/gpu.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/one_device_strategy.h"
#include "tutti/distribute/variable.h"
#include "tutti/tensor/copy_on_write.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/random_state.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class OnGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (test_devices_are_cpus()) GTEST_SKIP() << "needs TUTTI_TEST_DEVICE=gpus";
  }
  static at::Tensor on_gpu(const at::Tensor& tensor, int index = 0) { return tensor.to(gpu_device(index)); }

  const Watchdog watchdog{std::chrono::seconds(60)};
};

class SimulatedAccelerator : public OnGpus {
 protected:
  void SetUp() override {
    OnGpus::SetUp();
    if (!IsSkipped() && gpu_device(0).is_cuda()) GTEST_SKIP() << "on a real GPU";
  }
};

TEST_F(SimulatedAccelerator, KillsHostCodeThatReadsItsMemory) {
  const at::Tensor there = on_gpu(at::ones({4}, at::kCPU));
  EXPECT_DEATH(static_cast<void>(*static_cast<volatile const float*>(there.const_data_ptr())), "");
}

TEST_F(SimulatedAccelerator, ComputesWhatTheCpuDoes) {
  const at::Tensor x = at::randn({4, 6}, at::kCPU), there = on_gpu(x);
  const auto expect_same = [&](const auto& f) { EXPECT_TRUE(at::equal(f(there).cpu(), f(x))); };
  expect_same([](const at::Tensor& t) { return t.t().mm(t).slice(0, 1, 5, 2) + t.select(1, 2).sum(); });
  expect_same([](const at::Tensor& t) { return std::get<0>(t.sort(1)).index({t.select(1, 0) > 0}); });
  expect_same([](const at::Tensor& t) {
    at::Tensor written = t.clone();
    written.t().slice(0, 0, 2).add_(1);
    return written.resize_({30}).slice(0, 0, 24);
  });
  expect_same([](const at::Tensor& t) { return at::empty({0}, t.options()).copy_(t.slice(1, 0, 0).reshape(0)); });
  expect_same([](const at::Tensor& t) {
    at::Tensor out = at::empty({0}, t.options());
    return at::mul_out(out, t, t);
  });
  expect_same([](const at::Tensor& t) { return at::complex(t, t).conj().t().resolve_conj(); });
  expect_same([](const at::Tensor& t) { return (t.to_sparse() + t.to_sparse()).coalesce().to_dense(); });
  expect_same([](const at::Tensor& t) { return at::conv2d(t.view({1, 1, 4, 6}), t.view({1, 1, 4, 6})); });
}

TEST_F(SimulatedAccelerator, RefusesWhatCudaRefuses) {
  const at::Tensor here = at::ones({2}, at::kCPU), there = on_gpu(here), elsewhere = on_gpu(here, 1);
  EXPECT_THROW(there + here, c10::Error);
  EXPECT_THROW(there.mul_(elsewhere), c10::Error);
  EXPECT_EQ((there + here[0]).sum().item<float>(), 4);
  EXPECT_THROW(there.clone().uniform_(0, 1, at::globalContext().defaultGenerator(at::kCPU)), c10::Error);
}

TEST_F(SimulatedAccelerator, WritesToASharesOwnMemory) {
  const at::Tensor value = on_gpu(at::zeros({3}, at::kCPU)), share = share_or_copy(value);
  share.add_(1);
  EXPECT_THAT(numbers(value), Each(0));
  EXPECT_THAT(numbers(share), Each(1));
  const at::Tensor mean = share_or_copy(value), variance = on_gpu(at::ones({3}, at::kCPU));
  at::native_batch_norm(on_gpu(at::ones({8, 3}, at::kCPU)), {}, {}, mean, variance, true, 0.5, 1e-5);
  EXPECT_THAT(numbers(value), Each(0));  // whose kernel does not say that it writes
  EXPECT_THAT(numbers(mean), Each(0.5));
}

// --- batches, which are copied beside what a device computes ---

class Batches : public SimulatedAccelerator {
 protected:
  static at::Tensor on_host(double number) { return at::full({2, 4}, number, at::kCPU); }
  static void keep_busy(c10::Stream stream) {
    give_stream(stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
  }
  // On which batches are copied.
  static c10::Stream copies(int gpu) {
    return c10::impl::VirtualGuardImpl(gpu_device(gpu).type()).getStreamFromGlobalPool(gpu_device(gpu));
  }
};

TEST_F(Batches, AreComputedWithWhenTheyHaveCome) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  for (const int gpu : {0, 1}) {
    keep_busy(copies(gpu));
    const auto batches = strategy.distribute(on_host(gpu));
    EXPECT_FALSE(copies(gpu).query()) << "the host has waited";
    EXPECT_THAT(numbers(batches[static_cast<size_t>(gpu)] + 1), Each(gpu + 1));
  }
}

TEST_F(Batches, HaveTheirOwnNumbersHoweverManyAreUnderWay) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  for (const int gpu : {0, 1}) keep_busy(copies(gpu));
  std::vector<PerReplica<at::Tensor>> batches;
  for (int step = 0; step < 4; ++step) {
    at::Tensor batch = on_host(step);
    batches.push_back(strategy.distribute(batch));
    batch.fill_(-1);
  }
  for (int step = 0; step < 4; ++step)
    for (const at::Tensor& batch : batches[static_cast<size_t>(step)]) EXPECT_THAT(numbers(batch), Each(step));
}

TEST_F(Batches, LieThereUntilWhatComputesHasReadThem) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  std::latch are_dropped(1);
  std::array<float, 2> seen{};
  {
    const auto batches = strategy.distribute(on_host(7));
    for (const int gpu : {0, 1}) {
      const void* const memory = seen_by_kernels(batches[static_cast<size_t>(gpu)].const_data_ptr());
      give_stream(current_simulated_stream(gpu), [&, gpu, memory] {
        are_dropped.wait();
        seen[static_cast<size_t>(gpu)] = *static_cast<const float*>(memory);
      });
      copies(gpu).synchronize();
    }
  }
  are_dropped.count_down();
  for (const int gpu : {0, 1}) current_simulated_stream(gpu).synchronize();
  EXPECT_THAT(seen, Each(7));
}

TEST_F(OnGpus, BatchesFromAGpuGoToReplicasOnTheCpu) {
  MirroredStrategy strategy({.devices = {"CPU:0"}});
  EXPECT_TRUE(strategy.distribute(on_gpu(at::ones({2}, at::kCPU), 1))[0].is_cpu());
  const auto dataset = data::from_tensor_slices(on_gpu(at::ones({4}, at::kCPU))).batch(2);
  for (const auto& batch : strategy.distribute(dataset)) EXPECT_TRUE(batch[0].is_cpu());
}

// --- divided tensors ---

class DividedOnGpus : public OnGpus {
 protected:
  at::Tensor divided(const at::Tensor& value, const std::vector<std::string>& specs) const {
    return distribute_tensor(on_gpu(value), Layout(specs, mesh));
  }
  // Calls f, and expects that nothing moves for it.
  static at::Tensor without_moves(const std::function<at::Tensor()>& f) {
    const int before = num_copies_between_simulated_devices();
    reset_communications();
    const at::Tensor result = f();
    EXPECT_EQ(num_copies_between_simulated_devices(), before);
    for (const Communication& each : communications()) EXPECT_TRUE(each.free) << each.op << " for " << each.cause;
    return result;
  }

  const Mesh mesh{{{"x", 3}}, test_devices(3)};
};

TEST_F(DividedOnGpus, AttentionTakesMasksAndStaysDivided) {
  const auto attention = [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                            bool is_causal) {
    return at::scaled_dot_product_attention(q, k, v, mask.defined() ? std::optional(mask) : std::nullopt, 0, is_causal);
  };
  const at::Tensor q = at::randn({5, 4, 6, 2}, at::kCPU), k = at::randn({5, 4, 7, 2}, at::kCPU), v = k.flip(2),
                   seen = at::rand({6, 7}, at::kCPU) < 0.6;
  for (const auto& specs : std::vector<std::vector<std::string>>{{"x", kUnsharded, kUnsharded, kUnsharded},
                                                                 {kUnsharded, "x", kUnsharded, kUnsharded}})
    for (const bool is_causal : {true, false})
      for (const at::Tensor& mask : {at::Tensor(), seen, at::where(seen, 0.5, -2.0)}) {
        if (is_causal && mask.defined()) continue;
        const at::Tensor there = mask.defined() ? divided(mask, {kUnsharded, kUnsharded}) : mask;
        const at::Tensor own_q = divided(q, specs), own_k = divided(k, specs), own_v = divided(v, specs);
        const at::Tensor result = without_moves([&] { return attention(own_q, own_k, own_v, there, is_causal); });
        EXPECT_EQ(layout_of(result).sharding_specs(), specs);
        EXPECT_TRUE(at::allclose(gather(result).cpu(), attention(q, k, v, mask, is_causal), 1e-4, 1e-5));
      }
}

TEST_F(DividedOnGpus, BernoulliDrawsWhatOneDeviceDraws) {
  const at::Tensor p = at::rand({5, 4}, at::kCPU);
  for (const auto& specs : std::vector<std::vector<std::string>>{{"x", kUnsharded}, {kUnsharded, "x"}}) {
    const at::Tensor own = divided(p, specs);
    set_random_seed(3);
    const at::Tensor wanted = at::bernoulli(on_gpu(p)).cpu(), next = at::bernoulli(on_gpu(p)).cpu();
    set_random_seed(3);
    const at::Tensor result = without_moves([&] { return at::bernoulli(own); });
    EXPECT_EQ(layout_of(result).sharding_specs(), specs);
    EXPECT_TRUE(at::equal(gather(result).cpu(), wanted));
    EXPECT_TRUE(at::equal(gather(without_moves([&] { return at::empty_like(own).bernoulli_(own); })).cpu(), next));
    set_random_seed(3);
    const at::Tensor transposed = at::bernoulli(on_gpu(p).t()).cpu();
    set_random_seed(3);
    EXPECT_TRUE(at::equal(gather(at::bernoulli(own.t())).cpu(), transposed));
  }
}

TEST_F(DividedOnGpus, NumbersBesideIntegersGiveTheDefaultType) {
  for (const auto& specs : std::vector<std::vector<std::string>>{{"x"}, {kUnsharded}}) {
    const at::Tensor x = divided(at::ones({6}, at::TensorOptions(at::kCPU).dtype(at::kLong)), specs);
    const at::Tensor difference = without_moves([&] { return at::rsub(x, 2.5); });
    EXPECT_EQ(difference.scalar_type(), at::kFloat);
    EXPECT_THAT(numbers(gather(difference)), Each(1.5));
  }
}

TEST_F(DividedOnGpus, PartsOfOneGpuHavePiecesOfTheirOwn) {
  const int devices = num_gpus() + 3;
  const Mesh larger({{"x", devices}}, test_devices(devices));
  const at::Tensor x = distribute_tensor(on_gpu(at::full({1, 1}, 4.0)), Layout({"x", kUnsharded}, larger));
  const at::Tensor whole = distribute_tensor(on_gpu(at::full({1, 1}, 4.0)), Layout({kUnsharded, kUnsharded}, larger));
  EXPECT_THAT(numbers(gather(at::norm(x, 2, {0}))), Each(4));
  for (const at::Tensor& copy : {at::expand_copy(whole, {2, 1}), x.sum(0, true).sqrt(), std::get<0>(whole.sort(1))}) {
    copy.mul_(2);
    for (const at::Tensor& piece : mesh_impl(copy).read()) EXPECT_TRUE(at::equal(piece.cpu(), gather(copy).cpu()));
  }
  EXPECT_THAT(numbers(gather(whole)), Each(4));
}

// As the state of an optimizer that was loaded from a file.
TEST_F(DividedOnGpus, PlainTensorsAreWrittenFromReplicatedValues) {
  const at::Tensor x = divided(at::full({2}, 3.0, at::kCPU), {kUnsharded}),
                   sharded = divided(at::ones({3}, at::kCPU), {"x"});
  for (const int gpu : {0, 2}) {
    const at::Tensor plain = on_gpu(at::ones({2}, at::kCPU), gpu);
    EXPECT_TRUE(plain.mul_(0.5).add_(x, 2).is_same(plain));
    EXPECT_THAT(numbers(plain), Each(6.5));
    EXPECT_THROW(on_gpu(at::ones({3}, at::kCPU), gpu).add_(sharded), Error);
    EXPECT_THROW(at::ones({2}, at::kCPU).add_(x), c10::Error) << "between devices as without a mesh";
    EXPECT_THAT(numbers(at::ones({2}, at::kCPU).copy_(x)), Each(3));
  }
}

TEST_F(DividedOnGpus, AViewOfAViewThatIsACopyIsWrittenThrough) {
  const at::Tensor x = divided(at::ones({1, 2}, at::kCPU), {"x", kUnsharded});
  x.slice(0, 0, 1, 2).as_strided({1}, {2}).fill_(3);
  EXPECT_THAT(numbers(gather(x)), ElementsAre(3, 1));
}

using ReplicasOnGpus = OnGpus;

TEST_F(ReplicasOnGpus, HaveVariablesOnTheirGpuAlsoWithoutElements) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  for (const int64_t size : {0, 3}) {
    const Tensor x = strategy.build([&] { return variable(at::ones({size})); });
    const auto sums = strategy.run([&] {
      const at::NoGradGuard no_grad;
      const at::Tensor own = local(x).add_(1);  // which leaves what is shared
      EXPECT_EQ(own.storage().device(), own.device());
      return own + at::ones({1});
    });
    for (int r = 0; r < 2; ++r) EXPECT_EQ(sums[static_cast<size_t>(r)].device(), gpu_device(r));
  }
}

// LibTorch would run both backward passes on the thread of GPU:0.
TEST_F(ReplicasOnGpus, MeetInBackwardPassesAlsoOnOneGpu) {
  const std::vector<LogicalDeviceOptions> two(2);
  for (const auto& devices : {configure_logical_devices("GPU:0", two), test_devices(2)}) {
    MirroredStrategy strategy({.devices = devices});
    const auto gradients = strategy.run([] {
      const at::Tensor x = at::ones({2}).set_requires_grad(true);
      const auto context = get_replica_context();
      const at::Tensor sum = context.all_reduce(ReduceOp::sum, x);
      (sum * (1 + context.replica_id_in_sync_group())).sum().backward();
      return x.grad();
    });
    EXPECT_THAT(numbers(gradients[0]), Each(3));
    EXPECT_THAT(numbers(gradients[1]), Each(3));
  }
}

TEST_F(ReplicasOnGpus, ComputeInTheCallersStreams) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  const c10::impl::VirtualGuardImpl devices(gpu_device(0).type());
  const auto streams = [&] {
    return strategy.run([&] {
      return static_cast<int64_t>(
          devices.getStream(gpu_device(static_cast<int>(get_replica_context().replica_id_in_sync_group()))).id());
    });
  };
  const auto usual = streams();
  for (const int gpu : {0, 1}) {
    const c10::Stream own = devices.getStreamFromGlobalPool(gpu_device(gpu), false);
    const c10::Stream before = devices.exchangeStream(own);
    const auto seen = streams();
    devices.exchangeStream(before);
    for (const int other : {0, 1}) {
      const auto replica = static_cast<size_t>(other);
      EXPECT_EQ(seen[replica], other == gpu ? own.id() : usual[replica]);
    }
  }
  const auto again = streams();
  for (const size_t replica : {0, 1}) EXPECT_EQ(again[replica], usual[replica]);
}

TEST_F(ReplicasOnGpus, ReduceWhatLiesOnTheCpuWithItsGradientThere) {
  OneDeviceStrategy strategy("GPU:0");
  strategy.run([] {
    const at::Tensor x = at::ones({2}, at::kCPU).set_requires_grad(true);
    get_replica_context().all_reduce(ReduceOp::sum, x).sum().backward();
    EXPECT_TRUE(x.grad().is_cpu());
  });
}

TEST_F(ReplicasOnGpus, DrawTheirOwnNumbersOnTheCpuToo) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  const auto draw = [&] { return strategy.run([] { return at::rand({8}, at::kCPU); }); };
  set_random_seed(3);
  const auto first = draw(), next = draw();
  EXPECT_FALSE(at::equal(first[0], first[1]));
  EXPECT_FALSE(at::equal(first[0], next[0]));
  set_random_seed(3);
  EXPECT_TRUE(at::equal(draw()[1], first[1]));
}

TEST_F(ReplicasOnGpus, ScatterRowsThatLieOnTheirOwn) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  const Variable table = strategy.build([] {
    return variable(at::zeros({3, 1}), {.aggregation = VariableAggregation::sum});
  });
  strategy.run([&] { table.scatter_add(moved(at::tensor({0, 2})), at::ones({2, 1})); });
  EXPECT_THAT(numbers(table.value()), ElementsAre(2, 0, 2));
}

TEST_F(OnGpus, TheStorageOfAViewBeginsWithIt) {
  const Mesh mesh({{"x", 2}}, test_devices(2));
  const at::Tensor row = distribute_tensor(at::arange(6.0).view({2, 3}), Layout::replicated(mesh, 2))[1];
  EXPECT_THAT(numbers(at::empty({0}, row.options()).set_(row.storage(), row.storage_offset(), {3}, {1})),
              ElementsAre(3, 4, 5));
}

Tensor draw(ReplicaGenerators& generators, c10::Device device) {
  generators.follow_seed();
  return at::rand({4}, *generators.of(1), device).cpu();
}

TEST_F(OnGpus, RandomStateGoesOnThere) {
  set_random_seed(3);
  ReplicaGenerators generators(std::vector<c10::Device>(2, gpu_device(0)));
  draw(generators, gpu_device(0));
  at::rand({4}, gpu_device(1));
  const Tensor state = random_state();
  const Tensor next = draw(generators, gpu_device(0)), next_of_default = at::rand({4}, gpu_device(1));
  set_random_seed(4);
  restore_random_state(state);
  EXPECT_TRUE(draw(generators, gpu_device(0)).equal(next));
  EXPECT_TRUE(at::rand({4}, gpu_device(1)).equal(next_of_default));
}

TEST_F(OnGpus, RandomStateOfReplicasThereIsTakenByReplicasOnCpus) {
  set_random_seed(3);
  Tensor state;
  {
    ReplicaGenerators there(std::vector<c10::Device>(2, gpu_device(0)));
    draw(there, gpu_device(0));
    state = random_state();
  }
  ReplicaGenerators here(std::vector<c10::Device>(2, c10::Device(c10::kCPU)));
  restore_random_state(state);
  const Tensor first = draw(here, c10::kCPU);
  restore_random_state(state);
  EXPECT_TRUE(draw(here, c10::kCPU).equal(first));
}

}  // namespace
}  // namespace tutti
