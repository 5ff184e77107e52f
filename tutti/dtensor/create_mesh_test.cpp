#include "tutti/dtensor/create_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::dtensor {
namespace {

using testing::HasSubstr;

TEST(CreateMesh, FillsTheOpenDimension) {
  const auto devices = configure_logical_cpus(6);
  const CreateMeshOptions options{.devices = devices, .mesh = {.name = "six"}};
  const Mesh expected({{"a", 2}, {"b", 3}}, devices, {.name = "six"});
  EXPECT_EQ(create_mesh({{"a", 2}, {"b", 3}}, options), expected);
  EXPECT_EQ(create_mesh({{"a", -1}, {"b", 3}}, options), expected);
  EXPECT_EQ(create_mesh({{"a", 2}, {"b", -1}}, options), expected);
  EXPECT_EQ(create_mesh({{"a", 6}, {"b", -1}}, options).dim_size("b"), 1);
  EXPECT_EQ(create_mesh().num_devices(), static_cast<int64_t>(list_logical_devices(DeviceType::cpu).size()));
}

TEST(CreateMesh, RefusesWhatDoesNotFillTheDevices) {
  const auto refused = [devices = configure_logical_cpus(6)](std::vector<MeshDimension> dimensions) {
    return error_of([&] { create_mesh(std::move(dimensions), {.devices = devices}); });
  };
  EXPECT_THAT(refused({{"a", 4}}), HasSubstr("dimension \"a\" of size 4; the product of all sizes must be the 6"));
  EXPECT_THAT(refused({{"a", 4}, {"b", -1}}), HasSubstr("dimension \"a\" of size 4"));
  EXPECT_THAT(refused({{"a", -1}, {"b", -1}}), HasSubstr("\"a\" and \"b\" both have size -1"));
  EXPECT_THAT(refused({{"a", 0}}), HasSubstr("of size 0"));
  EXPECT_THAT(refused({{"a", -2}}), HasSubstr("of size -2"));
  EXPECT_THAT(refused({{"a", 3}}), HasSubstr("6 devices for dimensions whose product is 3"));
  EXPECT_THAT(error_of([] { create_mesh({{"a", -1}}, {.devices = {}}); }), HasSubstr("list of devices is empty"));
  EXPECT_THAT(error_of([] { create_mesh({{"a", 2}}, {.devices = {"CPU:0", "GPU:0"}}); }), HasSubstr("one type"));
}

}  // namespace
}  // namespace tutti::dtensor
