// NcclAllReduce between GPUs that are simulated, by tests/nccl/fake_nccl.cpp, which adds in their memory.
#include "tutti/distribute/nccl_all_reduce.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "tests/support/collected_warnings.h"
#include "tests/support/dataset_values.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_nccl.h"
#include "tests/support/simulated_kernels.h"
#include "tests/support/simulated_memory.h"
#include "tests/support/simulated_stream.h"
#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/central_storage_strategy.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/in_process_all_reduce.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/variable.h"
#include "tutti/function/function.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kGroup = "ncclGroupStart";

class NcclOnGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (test_devices_are_cpus()) GTEST_SKIP() << "needs TUTTI_TEST_DEVICE=gpus";
    if (gpu_device(0).is_cuda()) GTEST_SKIP() << "on a real GPU: the fake adds in the memory of simulated ones";
  }

  NcclAllReduce ops(const NcclAllReduceOptions& options = {}) const {
    return NcclAllReduce(options, fake.environment());
  }

  // How often NCCL was asked for sums.
  int num_groups() const {
    int n = 0;
    const std::string calls = fake.calls();
    for (size_t at = 0; (at = calls.find(kGroup, at)) != std::string::npos; ++at) ++n;
    return n;
  }

  // A value of each of n GPUs, of numbers whose sums are exact in every dtype.
  static PerReplica<Tensor> values(int n, at::ScalarType dtype = at::kFloat, at::IntArrayRef sizes = {2, 3}) {
    std::vector<Tensor> all;
    for (int r = 0; r < n; ++r)
      all.push_back((at::arange(c10::multiply_integers(sizes), at::kCPU) + r).to(dtype).view(sizes).to(gpu_device(r)));
    return PerReplica(std::move(all));
  }

  static void expect_same(const std::vector<Tensor>& seen, const std::vector<Tensor>& wanted, const std::string& of) {
    ASSERT_EQ(seen.size(), wanted.size()) << of;
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].device(), wanted[i].device()) << of;
      EXPECT_EQ(seen[i].scalar_type(), wanted[i].scalar_type()) << of;
      EXPECT_TRUE(at::equal(seen[i].cpu(), wanted[i].cpu())) << of << '\n' << seen[i] << wanted[i];
    }
  }

  const Watchdog watchdog{60s};
  const FakeNccl fake;
};

TEST_F(NcclOnGpus, HasTheSumsOfOneProcessForEveryDtypeAndNumberOfGpus) {
  const NcclAllReduce by_nccl = ops();
  for (const int n : {2, 3, 4, 8})
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kComplexDouble,
                             at::kChar, at::kByte, at::kInt, at::kLong}) {
      const Destinations all = test_devices(n);
      const int before = num_groups();
      expect_same(by_nccl.reduce(ReduceOp::sum, values(n, dtype), all),
                  InProcessAllReduce().reduce(ReduceOp::sum, values(n, dtype), all), tutti::str(dtype, " on ", n));
      EXPECT_EQ(num_groups(), before + 1) << dtype;
      expect_same(by_nccl.reduce(ReduceOp::mean, values(n, dtype), all),
                  InProcessAllReduce().reduce(ReduceOp::mean, values(n, dtype), all), tutti::str("mean of ", dtype));
    }
}

TEST_F(NcclOnGpus, LeavesOutWhatNcclDoesNotSum) {
  const NcclAllReduce by_nccl = ops();
  const Destinations two = test_devices(2);
  expect_same(by_nccl.reduce(ReduceOp::sum, values(2, at::kShort), two),
              InProcessAllReduce().reduce(ReduceOp::sum, values(2, at::kShort), two), "int16");
  EXPECT_EQ(by_nccl.reduce(ReduceOp::sum, values(2, at::kFloat, {0, 4}), two)[1].sizes(), at::IntArrayRef({0, 4}));
  const PerReplica<Tensor> on_host{at::ones({2}, at::kCPU), at::ones({2}, at::kCPU)};
  EXPECT_THAT(numbers(by_nccl.reduce(ReduceOp::sum, on_host, two)[1]), Each(2));
  const PerReplica<Tensor> on_one_gpu{values(1)[0], values(1)[0]};
  EXPECT_EQ(numbers(by_nccl.reduce(ReduceOp::sum, on_one_gpu, two)[1]), numbers(values(1)[0] * 2));
  expect_same(by_nccl.reduce(ReduceOp::sum, values(1), two), {values(1)[0], values(1)[0].to(gpu_device(1))}, "one");
  const Tensor leaf = at::ones({2}, at::kCPU).to(gpu_device(0)).set_requires_grad(true);
  const auto with_graph = by_nccl.reduce(ReduceOp::sum, {leaf * 2, values(2, at::kFloat, {2})[1]}, "GPU:0");
  with_graph[0].sum().backward();
  EXPECT_THAT(numbers(leaf.grad()), Each(2));
  EXPECT_THAT(error_of([&] { by_nccl.reduce(ReduceOp::sum, values(2, at::kBool), two); }),
              HasSubstr("booleans have no sum"));
  EXPECT_EQ(fake.calls(), "");
}

TEST_F(NcclOnGpus, SumsABatchOfManyKindsInOneGroupOfCalls) {
  for (const int num_packs : {0, 1, 3, 1000}) {
    const Destinations all = test_devices(3);
    std::vector<ReduceRequest> requests;
    for (const auto dtype : {at::kFloat, at::kInt, at::kFloat, at::kComplexFloat, at::kHalf, at::kFloat})
      requests.push_back({values(3, dtype, {5, 4}), all});
    const auto changed = [&](const std::function<Tensor(const Tensor&)>& change) {
      requests.push_back({values(3, at::kComplexFloat, {2, 3, 4}).transform(change), all});
    };
    changed([](const Tensor& value) { return value.conj(); });
    changed([](const Tensor& value) { return value.transpose(0, 2); });
    changed([](const Tensor& value) { return value.select(1, 1).slice(1, 0, 4, 2); });
    changed([](const Tensor& value) { return value.select(0, 1).select(0, 0).select(0, 2).expand({3, 2}); });
    changed([](const Tensor& value) { return at::imag(value.conj()).select(0, 0); });  // still to be negated
    changed([](const Tensor& value) { return value.select(0, 1).select(0, 0).select(0, 2); });
    const int before = num_groups();
    const auto sums = ops({.num_packs = num_packs}).batch_reduce(ReduceOp::sum, requests);
    EXPECT_EQ(num_groups(), before + 1);
    const auto wanted = InProcessAllReduce().batch_reduce(ReduceOp::sum, requests);
    for (size_t i = 0; i < requests.size(); ++i) expect_same(sums[i], wanted[i], str("request ", i));
    EXPECT_EQ(sums[7][1].strides(), requests[7].values[0].strides());
  }
  EXPECT_THAT(error_of([&] { ops({.num_packs = -1}); }),
              StartsWith("invalid_argument: NcclAllReduce: num_packs is -1"));
}

TEST_F(NcclOnGpus, MakesAsManyPacksAsItIsTold) {
  const auto num_calls = [&](int num_packs) {
    const FakeNccl own;
    const NcclAllReduce by_nccl({.num_packs = num_packs}, own.environment());
    const Destinations two = test_devices(2);
    by_nccl.batch_reduce(ReduceOp::sum, std::vector<ReduceRequest>(8, {values(2, at::kFloat, {16}), two}));
    return std::ranges::count(own.calls(), 'A') / 2;  // ncclAllReduce, of two devices
  };
  EXPECT_EQ(num_calls(1), 1);
  EXPECT_EQ(num_calls(3), 3);
  EXPECT_EQ(num_calls(0), 8);
}

TEST_F(NcclOnGpus, GivesEachDestinationATensorOfItsOwn) {
  const NcclAllReduce by_nccl = ops();
  const std::vector<LogicalDeviceOptions> two(2);
  const auto first = configure_logical_devices("GPU:0", two), second = configure_logical_devices("GPU:1", two);
  const Destinations places = std::vector<Device>{second[1], "CPU:0", first[0], first[1], "GPU:2"};
  const PerReplica<Tensor> given = values(2);
  const auto sums = by_nccl.reduce(ReduceOp::sum, given, places);
  const std::vector<c10::Device> devices{gpu_device(1), c10::kCPU, gpu_device(0), gpu_device(0), gpu_device(2)};
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i].device(), devices[i]);
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_THAT(numbers(sums[i]), ElementsAre(1, 3, 5, 7, 9, 11));
    sums[i].fill_(0);
  }
  EXPECT_EQ(numbers(given[1]), numbers(values(2)[1]));
  EXPECT_EQ(num_groups(), 1);
}

TEST_F(NcclOnGpus, AddsUpTheValuesOfOneGpuThere) {
  const std::vector<LogicalDeviceOptions> two(2);
  std::vector<Device> parts = configure_logical_devices("GPU:0", two);
  for (const Device& part : configure_logical_devices("GPU:1", two)) parts.push_back(part);
  const PerReplica<Tensor> four{values(1)[0], values(1)[0], values(2)[1], values(2)[1]};
  expect_same(ops().reduce(ReduceOp::sum, four, parts), InProcessAllReduce().reduce(ReduceOp::sum, four, parts), "sum");
  expect_same(ops().reduce(ReduceOp::mean, four, parts), InProcessAllReduce().reduce(ReduceOp::mean, four, parts),
              "mean");
  EXPECT_EQ(num_groups(), 2);
}

TEST_F(NcclOnGpus, ComesBehindWhatTheCurrentStreamsWereGiven) {
  const NcclAllReduce by_nccl = ops();
  const PerReplica<Tensor> late = values(2, at::kFloat, {1});
  const c10::impl::VirtualGuardImpl devices(gpu_device(0).type());
  std::vector<c10::Stream> before;
  for (int gpu = 0; gpu < 2; ++gpu) {
    before.push_back(devices.exchangeStream(devices.getStreamFromGlobalPool(gpu_device(gpu), false)));
    auto* const stream = static_cast<SimulatedStream*>(devices.getStream(gpu_device(gpu)).native_handle());
    stream->enqueue(
        stream,
        [](void* memory) {
          std::this_thread::sleep_for(20ms);
          *static_cast<float*>(memory) = 5;
        },
        seen_by_kernels(late[static_cast<size_t>(gpu)].const_data_ptr()));
  }
  const auto sums = by_nccl.reduce(ReduceOp::sum, late, test_devices(2));
  for (const c10::Stream stream : before) devices.exchangeStream(stream);
  for (const Tensor& sum : sums) EXPECT_THAT(numbers(sum), Each(10));  // on another stream: it has ended
}

TEST_F(NcclOnGpus, NamesTheGpuAndWhatWasReducedAndJoinsAnew) {
  const Destinations all = test_devices(3);
  const std::vector<ReduceRequest> two(2, {values(3), all});
  const std::vector<std::pair<NcclFault, std::string>> faults{
      {NcclFault::failed_join, "GPU:1: NCCL 2.29.7"},
      {NcclFault::endless_join, "after 100 ms GPU:1 has not joined"},
      {NcclFault::failed_on_device, "GPU:1: NCCL 2.29.7, what was begun"},
      {NcclFault::endless_call, "after 100 ms GPU:0, GPU:1, GPU:2: all have come, and NCCL has not ended it"}};
  for (const auto& [fault, text] : faults) {
    const NcclAllReduce by_nccl = ops({.timeout = 100ms});
    fake.set(fault, 1);
    const std::string error = error_of([&] { by_nccl.batch_reduce(ReduceOp::sum, two); });
    EXPECT_THAT(error, AllOf(HasSubstr("NcclAllReduce, the sum of 3 replicas' "), HasSubstr("[2, 3] and 1 more: NCCL "),
                             HasSubstr("between GPU:0, GPU:1, GPU:2: "), HasSubstr(text)));
    fake.set(NcclFault::none);
    EXPECT_THAT(numbers(by_nccl.reduce(ReduceOp::sum, values(3), all)[2]), ElementsAre(3, 6, 9, 12, 15, 18));
  }
}

TEST_F(NcclOnGpus, IsForSeveralThreadsAndStrategiesAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> num_right = 0;
  const NcclAllReduce shared = ops();
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const NcclAllReduce own = ops();
      for (int i = 0; i < 10; ++i)
        num_right += numbers((t % 2 ? own : shared).reduce(ReduceOp::sum, values(2), test_devices(2))[1]) ==
                     numbers(at::arange(6, at::kCPU) * 2 + 1);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_right, 40);
}

// --- strategies ---

// TUTTI_NCCL_LIBRARY names the fake, or another file.
class Named {
 public:
  explicit Named(const std::string& path) { setenv("TUTTI_NCCL_LIBRARY", path.c_str(), 1); }
  ~Named() { unsetenv("TUTTI_NCCL_LIBRARY"); }
};

bool has_nccl(const Strategy& strategy) {
  return dynamic_cast<const NcclAllReduce*>(&strategy.cross_device_ops()) != nullptr;
}

using StrategiesByNccl = NcclOnGpus;

TEST_F(StrategiesByNccl, TakeItBetweenGpusOfTheirOwnAccord) {
  const CollectedWarnings warnings;
  const auto parts = configure_logical_devices("GPU:0", std::vector<LogicalDeviceOptions>(2));
  EXPECT_FALSE(has_nccl(MirroredStrategy({.devices = test_devices(2)}))) << "of a kind for which there is no library";
  const Named named(fake.path());
  EXPECT_TRUE(has_nccl(MirroredStrategy({.devices = test_devices(2)})));
  EXPECT_FALSE(has_nccl(MirroredStrategy({.devices = {"GPU:0"}})));
  EXPECT_FALSE(has_nccl(MirroredStrategy({.devices = parts})));
  EXPECT_FALSE(has_nccl(MirroredStrategy({.devices = {"CPU:0", "GPU:1"}})));
  EXPECT_FALSE(has_nccl(MirroredStrategy({.devices = {"GPU:0", "GPU:1"}, .cross_device_ops = InProcessAllReduce()})));
  EXPECT_FALSE(has_nccl(CentralStorageStrategy({.compute_devices = test_devices(2), .parameter_device = "CPU:0"})));
  EXPECT_THAT(warnings.lines(), IsEmpty());
}

TEST_F(StrategiesByNccl, SayWhereItHasNothingToDo) {
  const CollectedWarnings warnings;
  const auto parts = configure_logical_devices("GPU:0", std::vector<LogicalDeviceOptions>(2));
  MirroredStrategy strategy({.devices = parts, .cross_device_ops = ops()});
  EXPECT_THAT(warnings.lines(), ElementsAre(AllOf(StartsWith("MirroredStrategy: NcclAllReduce sums between different"),
                                                  HasSubstr("sums are taken as without it"))));
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, strategy.run([] { return at::ones({}); })).item<float>(), 2);
  EXPECT_EQ(fake.calls(), "");
}

TEST_F(StrategiesByNccl, AreRefusedALibraryThatIsNamedInVain) {
  const Named named("/no/such/libnccl.so.2");
  EXPECT_THAT(error_of([] { MirroredStrategy({.devices = test_devices(2)}); }),
              StartsWith("not_found: TUTTI_NCCL_LIBRARY names \"/no/such/libnccl.so.2\""));
}

TEST_F(StrategiesByNccl, ReduceAllThatReplicasHave) {
  MirroredStrategy strategy({.devices = test_devices(3), .cross_device_ops = ops()});
  const auto ids = strategy.run([] {
    const auto context = get_replica_context();
    const Tensor x =
        at::full({2}, 1.0f + static_cast<float>(context.replica_id_in_sync_group())).set_requires_grad(true);
    const Tensor sum = context.all_reduce(ReduceOp::sum, x);
    (sum * x.detach()).sum().backward();
    return std::pair(sum.detach(), x.grad());
  });
  for (int r = 0; r < 3; ++r) {
    const auto& [sum, gradient] = ids[static_cast<size_t>(r)];
    EXPECT_EQ(sum.device(), gpu_device(r));
    EXPECT_THAT(numbers(sum), Each(6));
    EXPECT_THAT(numbers(gradient), Each(6));
  }
  EXPECT_EQ(num_groups(), 2) << "the sum and its gradient";
  EXPECT_THAT(numbers(strategy.reduce(ReduceOp::sum, values(3))), ElementsAre(3, 6, 9, 12, 15, 18));
  EXPECT_EQ(strategy.reduce_to(ReduceOp::sum, values(3), "CPU:0")[0].device(), c10::kCPU);
  EXPECT_EQ(num_groups(), 4);
}

struct Step {
  std::vector<Tensor> weights;
  Tensor gradient;
};

// Two steps, the second of which has no gradient of the bias on replica 1.
Step train(MirroredStrategy& strategy) {
  const auto [weight, bias] = strategy.build([] {
    return std::pair(variable(at::arange(6, at::kFloat).view({3, 2})), variable(at::ones({2})));
  });
  const std::vector<Tensor> parameters{weight, bias};
  const Tensor x = at::arange(24, at::TensorOptions(at::kCPU).dtype(at::kFloat)).view({8, 3}).div(8);
  for (const bool all_have_bias : {true, false}) {
    strategy.run(
        [&, w = Tensor(weight), b = Tensor(bias)](const Tensor& batch) {
          const bool has_bias = all_have_bias || get_replica_context().replica_id_in_sync_group() != 1;
          const Tensor y = batch.matmul(w);
          (has_bias ? y + b : y).square().sum().backward();
        },
        strategy.distribute(x));
    const at::NoGradGuard no_grad;
    for (const Tensor& parameter : parameters) parameter.sub_(parameter.grad() * 0.0625);
    if (!all_have_bias) return {{gather(weight).cpu(), gather(bias).cpu()}, parameters[0].grad()};
    for (const Tensor& parameter : parameters) parameter.mutable_grad().reset();
  }
  return {};
}

TEST_F(StrategiesByNccl, TrainLikeWithoutAndReduceOnceAStep) {
  MirroredStrategy without({.devices = test_devices(4)});
  const Step wanted = train(without);
  const Named named(fake.path());
  MirroredStrategy strategy({.devices = test_devices(4)});
  const Step seen = train(strategy);
  EXPECT_EQ(num_groups(), 2) << fake.calls();
  for (const size_t i : {0, 1}) EXPECT_TRUE(at::allclose(seen.weights[i], wanted.weights[i], 1e-6)) << seen.weights[i];
  const Components& places = mesh_impl(seen.gradient).read();
  ASSERT_EQ(places.size(), 4);
  for (size_t i = 0; i < places.size(); ++i) EXPECT_EQ(places[i].device(), gpu_device(static_cast<int>(i)));
  for (const Tensor& place : places) EXPECT_TRUE(at::equal(place.cpu(), places[0].cpu()));
}

TEST_F(StrategiesByNccl, SumInEachReplayOfARecordedFunction) {
  MirroredStrategy strategy({.devices = test_devices(3), .cross_device_ops = ops()});
  const Tensor weight = strategy.build([] { return variable(at::arange(6, at::kFloat).view({3, 2})); });
  const auto step = [&](const PerReplica<Tensor>& batch) {
    const auto sums = strategy.run(
        [&, w = Tensor(weight)](const Tensor& x) {
          const Tensor own = gradients(x.matmul(w).square().sum(), {w})[0];
          return get_replica_context().all_reduce(ReduceOp::mean, own);
        },
        batch);
    return strategy.reduce(ReduceOp::sum, sums);
  };
  const auto recorded = function(step);
  for (int i = 0; i < 5; ++i) {
    const auto batch = strategy.distribute(at::arange(18, at::kFloat).view({6, 3}).div(8) + i);
    const int before = num_groups();
    const Tensor wanted = step(batch);
    const int between = num_groups();
    const Tensor seen = recorded(batch);
    EXPECT_TRUE(at::equal(seen.cpu(), wanted.cpu())) << i << seen << wanted;
    EXPECT_EQ(num_groups() - between, between - before);
  }
  EXPECT_EQ(recorded.tracing_count(), 2);
}

// What global view has of a gradient when a run begins counts once, though each replica finds it in a pack of its GPU.
TEST_F(StrategiesByNccl, AccumulateOverRuns) {
  const auto accumulate = [](MirroredStrategy& strategy, ReduceOp op) {
    const auto variables = strategy.build(
        [] {
          return std::vector<Tensor>{variable(at::ones({3})), variable(at::ones({2, 2}))};
        },
        {.gradients = op});
    for (int i = 0; i < 3; ++i) {
      strategy.run([&] {
        const float id = 1.0f + static_cast<float>(get_replica_context().replica_id_in_sync_group());
        for (const Tensor& variable : variables) (variable * id).sum().backward();
      });
      for (const Tensor& variable : variables) EXPECT_EQ(variable.grad().sizes(), variable.sizes());
    }
    return std::vector<Tensor>{gather(variables[0].grad()).cpu(), gather(variables[1].grad()).cpu()};
  };
  MirroredStrategy without({.devices = test_devices(4)});
  MirroredStrategy strategy({.devices = test_devices(4), .cross_device_ops = ops()});
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    const auto seen = accumulate(strategy, op), wanted = accumulate(without, op);
    for (const size_t i : {0, 1}) EXPECT_TRUE(at::equal(seen[i], wanted[i])) << seen[i] << wanted[i];
    EXPECT_THAT(numbers(seen[0]), Each(op == ReduceOp::sum ? 30 : 7.5));
  }
}

// Each GPU has the sum, and updates its own copy of the variable by it: nothing is copied between them.
TEST_F(StrategiesByNccl, UpdateByKerasOnEachGpuFromItsOwnSum) {
  using keras::optimizers::Adam;
  const auto weights_of = [](MirroredStrategy& strategy, bool are_sparse, int* num_copies) {
    const Tensor table = strategy.build([] { return variable(at::arange(8, at::kFloat).view({4, 2}).div(8)); });
    const Adam optimizer({.learning_rate = 0.5, .weight_decay = 0.1, .global_clipnorm = 0.25, .use_ema = true});
    int before = 0;
    for (int step = 0; step < 3; ++step) {
      if (step == 1) before = num_copies_between_simulated_devices();  // the state of the variable is there
      strategy.run([&] {
        const int64_t id = get_replica_context().replica_id_in_sync_group();
        const Tensor rows = at::embedding(table, at::full({2}, id, at::kLong), -1, false, are_sparse);
        optimizer.apply_gradients(gradients((rows * static_cast<double>(1 + id)).square().sum(), {table}), {table});
      });
    }
    *num_copies = num_copies_between_simulated_devices() - before;
    for (const Tensor& component : mesh_impl(table).read())
      EXPECT_TRUE(at::equal(component.cpu(), gather(table).cpu())) << component;
    return gather(table.detach()).cpu();
  };
  for (const bool are_sparse : {false, true}) {
    MirroredStrategy without({.devices = test_devices(3)}),
        strategy({.devices = test_devices(3), .cross_device_ops = ops()});
    int num_copies = 0;
    const Tensor wanted = weights_of(without, are_sparse, &num_copies);
    EXPECT_GT(num_copies, 0);
    EXPECT_TRUE(at::allclose(weights_of(strategy, are_sparse, &num_copies), wanted, 1e-5, 1e-6));
    EXPECT_EQ(num_copies == 0, !are_sparse) << num_copies;  // the rows of sparse ones are brought together
  }
}

// What is given out stays as it is when the next sum is taken.
TEST_F(NcclOnGpus, GivesOutSumsThatLaterOnesLeaveAlone) {
  const NcclAllReduce by_nccl = ops();
  const Destinations two = test_devices(2);
  const auto first = by_nccl.reduce(ReduceOp::sum, values(2), two);
  const auto next = by_nccl.reduce(ReduceOp::sum, {values(2)[0] * 10, values(2)[1] * 10}, two);
  for (const size_t gpu : {0, 1}) {
    EXPECT_THAT(numbers(first[gpu]), ElementsAre(1, 3, 5, 7, 9, 11));
    EXPECT_THAT(numbers(next[gpu]), ElementsAre(10, 30, 50, 70, 90, 110));
  }
}

TEST_F(StrategiesByNccl, JoinSparseGradients) {
  MirroredStrategy strategy({.devices = test_devices(2), .cross_device_ops = ops()});
  const Tensor table = strategy.build([] { return variable(at::ones({4, 1})); });
  strategy.run([&] {
    const int64_t row = get_replica_context().replica_id_in_sync_group();
    const Tensor rows = at::full({2}, row, at::kLong);
    at::embedding(table, rows, -1, false, /*sparse=*/true).sum().backward();
  });
  EXPECT_THAT(numbers(gather(table.grad()).to_dense()), ElementsAre(2, 2, 0, 0));
}

TEST_F(StrategiesByNccl, StayUsableBehindAFailure) {
  MirroredStrategy strategy({.devices = test_devices(2), .cross_device_ops = ops()});
  const auto sum = [&] {
    return strategy.run([] { return get_replica_context().all_reduce(ReduceOp::sum, at::ones({2})); });
  };
  fake.set(NcclFault::failed_on_device, 1);
  EXPECT_THAT(error_of(sum), AllOf(HasSubstr("NcclAllReduce, the sum of 2 replicas'"), HasSubstr("GPU:1: NCCL")));
  fake.set(NcclFault::none);
  EXPECT_THAT(numbers(sum()[1]), Each(2));
}

}  // namespace
}  // namespace tutti
