#include "tutti/cluster/tpu_cluster_resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::cluster {
namespace {

using testing::HasSubstr;

// As recorded of TensorFlow's TPUClusterResolver.
TEST(TPUClusterResolver, TakesEndpointsFromArgumentsAndVariables) {
  const Environment none;
  const TPUClusterResolver two({.tpu = "grpc://a:8470,grpc://b:8470"}, none);
  EXPECT_EQ(two.cluster_spec(), ClusterSpec({{"worker", {"a:8470", "b:8470"}}}));
  EXPECT_EQ(two.master(), "grpc://a:8470");
  EXPECT_EQ(two.task(), (Task{"worker", 0}));
  const TPUClusterResolver led({.tpu = "grpc://10.0.0.5:8470",
                                .job_name = "tpu_worker",
                                .coordinator_name = "coordinator",
                                .coordinator_address = "10.0.0.9:2222"},
                               none);
  EXPECT_EQ(led.cluster_spec(), ClusterSpec({{"tpu_worker", {"10.0.0.5:8470"}}, {"coordinator", {"10.0.0.9:2222"}}}));
  EXPECT_EQ(led.task(), (Task{"tpu_worker", 0}));
  for (const char* name : {"KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS", "TPU_NAME"})
    EXPECT_EQ(TPUClusterResolver({}, Environment::Variables{{name, "grpc://10.1.1.1:8470"}}).master(),
              "grpc://10.1.1.1:8470");
  EXPECT_EQ(TPUClusterResolver({.tpu = "local"}, none).cluster_spec(), ClusterSpec());
  EXPECT_EQ(TPUClusterResolver({.tpu = "local"}, none).master(), "");
}

TEST(TPUClusterResolver, RefusesWhatItWouldHaveToLookUp) {
  EXPECT_THAT(error_of([] { TPUClusterResolver({.tpu = ""}, {}); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([] { TPUClusterResolver({.tpu = "my-tpu"}, {}); }),
              HasSubstr("unimplemented: the TPU \"my-tpu\""));
  EXPECT_THAT(error_of([] { TPUClusterResolver({}, Environment()); }), HasSubstr("set TPU_NAME"));
}

TEST(TPUClusterResolver, RefusesPortsThatAreNone) {
  EXPECT_THAT(error_of([] { TPUClusterResolver({.tpu = "grpc://a:8470,grpc://b:99999"}, {}); }),
              HasSubstr("invalid_argument: tpu: the address of worker 1 is 'b:99999'"));
  EXPECT_THAT(error_of([] {
                TPUClusterResolver({}, Environment::Variables{{"TPU_NAME", "grpc://a:0"}});
              }),
              HasSubstr("TPU_NAME: the address of worker 0 is 'a:0'"));
}

}  // namespace
}  // namespace tutti::cluster
