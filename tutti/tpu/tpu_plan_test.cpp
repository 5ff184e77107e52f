// What programs take on TPUs that are not there.
#include "tutti/tpu/tpu_plan.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/function/function.h"
#include "tutti/tpu/planned_tpu.h"
#include "tutti/tpu/tpu_strategy.h"
#include "tutti/tpu/tpu_system.h"

namespace tutti::tpu {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Four replicas multiply, and add up.
auto recorded_product(MirroredStrategy& strategy) {
  const Tensor w = strategy.build([] { return at::ones({64, 32}); });
  const auto step = function([&strategy, w](const PerReplica<Tensor>& x) {
    return strategy.reduce(ReduceOp::sum, strategy.run([&](const Tensor& own) { return at::mm(own, w).sum(); }, x));
  });
  const auto x = strategy.distribute(at::ones({512, 64}));
  for (int i = 0; i < 2; ++i) step(x);
  return step.get_concrete_function(x);
}

TEST(TpuPlan, TellsTheMemoryAndTheCollectivesOfEachDevice) {
  if (!std::filesystem::exists(TUTTI_LIBTPU)) GTEST_SKIP() << "there is no libtpu here: ./dev test -L pjrt fetches it";
  MirroredStrategy strategy({.devices = configure_logical_cpus(4)});
  const TpuPlanOptions options{.environment = cluster::Environment::Variables{{"TPU_LIBRARY_PATH", TUTTI_LIBTPU}}};
  const TpuPlan plan = plan_for_tpu(recorded_product(strategy), "v5e:2x2", options);
  EXPECT_EQ(plan.replicas, 4);
  EXPECT_EQ(plan.all_reduces, 1);
  EXPECT_GE(plan.arguments, 128 * 64 * 4 + 64 * 32 * 4);
  EXPECT_LT(plan.arguments, 2 * 512 * 64 * 4) << "of a replica's part of the batch";
  EXPECT_GT(plan.code, 0);
  EXPECT_EQ(plan.total(), plan.code + plan.arguments + plan.outputs - plan.reused + plan.temporaries);
  EXPECT_EQ(plan.state, 64 * 32 * 4);
  EXPECT_EQ(plan.inputs, 128 * 64 * 4);
  EXPECT_EQ(plan.all_reduce_bytes, 4) << "a sum";
  EXPECT_GT(plan.capacity, int64_t{15} << 30);
  EXPECT_THAT(plan.to_string(), StartsWith("function on each of 4 devices of v5e:2x2, in bytes:\n  code"));
  EXPECT_THAT(error_of([&] { plan_for_tpu(recorded_product(strategy), "v5e:2x4", options); }),
              HasSubstr("runs 4 replicas and v5e:2x4 has 8 devices"));
  EXPECT_THAT(error_of([&] { plan_for_tpu(recorded_product(strategy), "v99:2x2", options); }), HasSubstr("v99"));
}

// Memory that nobody touches takes none.
struct UntouchedMemory {
  explicit UntouchedMemory(size_t size)
      : size(size),
        data(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~UntouchedMemory() { munmap(data, size); }
  UntouchedMemory(const UntouchedMemory&) = delete;
  UntouchedMemory& operator=(const UntouchedMemory&) = delete;

  size_t size;
  void* data;
};

// The number behind a text; -1 where there is none.
double number_behind(const std::string& text, const std::string& before) {
  const size_t place = text.find(before);
  return place == std::string::npos ? -1 : std::stod(text.substr(place + before.size()));
}

TEST(TpuPlan, OfWhatTheChipHasNoMemoryForSaysWhatExceedsItAndTheWaysOut) {
  if (!std::filesystem::exists(TUTTI_LIBTPU)) GTEST_SKIP() << "there is no libtpu here: ./dev test -L pjrt fetches it";
  constexpr int64_t kRows = int64_t{1} << 30, kColumns = 32;  // 128 GiB
  const UntouchedMemory memory(kRows * kColumns * sizeof(float));
  if (memory.data == MAP_FAILED) GTEST_SKIP() << "this system gives no memory that it does not have";
  const Tensor table = at::from_blob(memory.data, {kRows, kColumns});
  for (const auto& [topology, devices] : {std::pair{"v4:1x1x1", 2}, {"v5e:1x1", 1}, {"v5p:1x1x1", 1}, {"v6e:1x1", 1}}) {
    MirroredStrategy strategy({.devices = configure_logical_cpus(devices)});
    const auto look_up = function(
        [&](const PerReplica<Tensor>& x) { return strategy.run([&](const Tensor& own) { return own + table[7]; }, x); },
        {.name = "look_up"});
    const auto x = strategy.distribute(at::ones({2, kColumns}));
    for (int i = 0; i < 2; ++i) look_up(x);
    const std::string error = error_of([&] {
      plan_for_tpu(look_up.get_concrete_function(x), topology,
                   {.environment = cluster::Environment::Variables{{"TPU_LIBRARY_PATH", TUTTI_LIBTPU}}});
    });
    EXPECT_THAT(error, StartsWith(str("resource_exhausted: look_up does not fit on ", topology, ": ")));
    EXPECT_THAT(error, HasSubstr("holds 137438953472 bytes of variables"));
    EXPECT_THAT(error, HasSubstr("Ways out: a smaller model, an optimizer with less state"));
    EXPECT_NEAR(number_behind(error, ", and has ") / std::ldexp(1.0, 30), number_behind(error, "available HBM ("), 0.01)
        << error;
  }
}

TEST(TpuPlan, IsMadeForWhatTheEnvironmentNames) {
  if (!std::filesystem::exists(TUTTI_LIBTPU)) GTEST_SKIP() << "there is no libtpu here: ./dev test -L pjrt fetches it";
  const cluster::TPUClusterResolver resolver({.tpu = "local"}, cluster::Environment());
  const Topology topology = initialize_tpu_system(
      resolver,
      {.environment = cluster::Environment::Variables{{kPlanVariable, "v5e:2x4"}, {"TPU_LIBRARY_PATH", TUTTI_LIBTPU}}});
  EXPECT_EQ(topology.num_tpus_per_task(), 8);
  {
    const TPUStrategy strategy(resolver);
    EXPECT_EQ(strategy.num_replicas_in_sync(), 8);
    EXPECT_EQ(strategy.traffic().sent, 0);
    EXPECT_THAT(error_of([&] {
                  TPUStrategy(resolver, {.device_assignment = DeviceAssignment::build(topology, {.num_replicas = 4})});
                }),
                HasSubstr("name a topology of 4 devices in TUTTI_PLAN_TPU"));
  }
  EXPECT_THAT(error_of([] { tpu_client(); }), StartsWith("failed_precondition"));
  shutdown_tpu_system();
  EXPECT_EQ(planned_tpu(), nullptr);
}

TEST(TpuPlan, NeedsLibtpu) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(4)});
  const TemporaryFolder root;
  EXPECT_THAT(error_of([&] {
                plan_for_tpu(recorded_product(strategy), "v5e:2x2",
                             {.environment = cluster::Environment(), .root = root.path()});
              }),
              StartsWith("not_found: a plan for a TPU: no libtpu.so was found (looked at "));
}

}  // namespace
}  // namespace tutti::tpu
