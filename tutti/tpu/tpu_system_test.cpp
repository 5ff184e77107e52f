#include "tutti/tpu/tpu_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/cluster/tpu_cluster_resolver.h"
#include "tutti/pjrt/client.h"

namespace tutti::tpu {
namespace {

using cluster::Environment;
using cluster::TPUClusterResolver;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TPUClusterResolver local() { return TPUClusterResolver({.tpu = "local"}, Environment()); }
TpuSystemOptions with_fake_plugin() {
  return {.environment = Environment::Variables{{"TUTTI_PJRT_PLUGIN", TUTTI_FAKE_PJRT_PLUGIN}}};
}

TEST(TpuSystem, WithoutATpuFailsWithinASecondAndSaysWhatWasLookedFor) {
  const TemporaryFolder root;
  const auto start = std::chrono::steady_clock::now();
  const std::string error =
      error_of([&] { initialize_tpu_system(local(), {.environment = Environment(), .root = root.path()}); });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_THAT(error,
              AllOf(StartsWith("not_found: TPUs not found: no device in "), HasSubstr("sys/bus/pci/devices is a TPU"),
                    HasSubstr("TPU_LIBRARY_PATH (not set)"), HasSubstr("lib/libtpu.so")));
}

TEST(TpuSystem, DoesNotLoadLibtpuWhereNoChipIs) {
  const TemporaryFolder root;
  root.write("lib/libtpu.so", "not loaded");
  EXPECT_THAT(error_of([&] { initialize_tpu_system(local(), {.environment = Environment(), .root = root.path()}); }),
              AllOf(HasSubstr("is a TPU (Google's, 0x1ae0); libtpu is at "), EndsWith("the plugin of another device")));
}

TEST(TpuSystem, OfAnotherHostIsRefused) {
  const TPUClusterResolver resolver({.tpu = "grpc://a:8470"}, Environment());
  EXPECT_THAT(error_of([&] { initialize_tpu_system(resolver); }),
              StartsWith("unimplemented: the TPU at grpc://a:8470 is another host's"));
  EXPECT_THAT(error_of([&] { connect_to_cluster(resolver); }), StartsWith("unimplemented"));
}

TEST(TpuSystem, IsInitializedExplicitlyAndTellsItsTopology) {
  const CollectedWarnings warnings;
  EXPECT_THAT(error_of([] { tpu_client(); }), StartsWith("failed_precondition: the TPU system is not initialized"));
  const TPUClusterResolver resolver = local();
  connect_to_cluster(resolver);
  const Topology topology = initialize_tpu_system(resolver, with_fake_plugin());
  EXPECT_EQ(topology.mesh_shape(), (Coordinates{2, 1, 1, 1}));
  EXPECT_EQ(topology.num_tpus_per_task(), 2);
  EXPECT_EQ(tpu_client()->platform(), "fake");
  EXPECT_TRUE(warnings.lines().empty());
  initialize_tpu_system(resolver, with_fake_plugin());
  ASSERT_EQ(warnings.lines().size(), 1u);
  EXPECT_THAT(warnings.lines()[0], HasSubstr("has already been initialized"));
  shutdown_tpu_system();
  shutdown_tpu_system();
  ASSERT_EQ(warnings.lines().size(), 2u);
  EXPECT_THAT(warnings.lines()[1], HasSubstr("was not initialized"));
}

}  // namespace
}  // namespace tutti::tpu
