#include "tutti/mesh/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"

namespace tutti {
namespace {

using testing::HasSubstr;

std::vector<Device> backwards(int n) {
  auto devices = configure_logical_cpus(n);
  return {devices.rbegin(), devices.rend()};
}

Mesh mesh_of_six() { return Mesh({{"x", 2}, {"y", 3}}, configure_logical_cpus(6)); }

TEST(Mesh, CountsDevicesRowMajor) {
  const Mesh mesh = mesh_of_six();
  EXPECT_EQ(mesh.shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(mesh.strides(), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(mesh.coordinates(4), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(mesh.dim_size("y"), 3);
  EXPECT_TRUE(mesh.contains("x"));
  EXPECT_FALSE(mesh.contains("z"));
  EXPECT_EQ(code_of([&] { mesh.coordinates(6); }), ErrorCode::out_of_range);
  EXPECT_EQ(error_of([&] { mesh.dim_size("z"); }), "invalid_argument: Mesh: no dimension \"z\" in <x=2, y=3>");
}

TEST(Mesh, TakesDevicesInAnyOrder) {
  const auto devices = backwards(4);
  const Mesh mesh({{"x", 4}}, devices);
  EXPECT_EQ(mesh.devices(), devices);
  EXPECT_FALSE(mesh == Mesh({{"x", 4}}, configure_logical_cpus(4)));
  EXPECT_EQ(Mesh::parse(mesh.serialize()), mesh);
}

TEST(Mesh, HasSubMeshes) {
  const Mesh mesh = mesh_of_six();
  const auto devices = mesh.devices();
  EXPECT_EQ(mesh.sub_mesh({{"x", 1}}), Mesh({{"y", 3}}, {devices[3], devices[4], devices[5]}));
  EXPECT_EQ(mesh.sub_mesh({{"y", 2}}), Mesh({{"x", 2}}, {devices[2], devices[5]}));
  EXPECT_EQ(mesh.sub_mesh({{"x", 0}, {"y", 1}}), Mesh({}, {devices[1]}));
  EXPECT_EQ(mesh.sub_mesh({}), mesh);
  EXPECT_EQ(code_of([&] { mesh.sub_mesh({{"y", 3}}); }), ErrorCode::out_of_range);
  EXPECT_EQ(code_of([&] { mesh.sub_mesh({{"z", 0}}); }), ErrorCode::invalid_argument);
}

TEST(Mesh, ANameTellsMeshesApart) {
  const Mesh named({{"x", 2}}, configure_logical_cpus(2), {.name = "pod"});
  EXPECT_EQ(named.name(), "pod");
  EXPECT_FALSE(named == Mesh({{"x", 2}}, configure_logical_cpus(2)));
  EXPECT_EQ(Mesh::parse(named.serialize()), named);
  EXPECT_EQ(code_of([] { Mesh({{"x", 1}}, {"CPU:0"}, {.name = "a|b"}); }), ErrorCode::invalid_argument);
}

TEST(Mesh, RefusesWhatIsNoGrid) {
  const auto refused = [](std::vector<MeshDimension> dimensions, std::vector<Device> devices) {
    return error_of([&] { Mesh(std::move(dimensions), std::move(devices)); });
  };
  const auto two = configure_logical_cpus(2);
  EXPECT_THAT(refused({{"x", 3}}, two), HasSubstr("2 devices for dimensions whose product is more"));
  EXPECT_THAT(refused({{"x", 1}}, two), HasSubstr("2 devices for dimensions whose product is 1"));
  EXPECT_THAT(refused({{"x", int64_t{1} << 62}, {"y", 4}}, two), HasSubstr("product is more"));
  EXPECT_THAT(refused({{"x", -2}}, two), HasSubstr("size -2"));
  EXPECT_THAT(refused({{"", 2}}, two), HasSubstr("no name"));
  EXPECT_THAT(refused({{"unsharded", 2}}, two), HasSubstr("cannot be named"));
  EXPECT_THAT(refused({{"match", 2}}, two), HasSubstr("cannot be named"));
  EXPECT_THAT(refused({{"x,y", 2}}, two), HasSubstr("may be in a name"));
  EXPECT_THAT(refused({{"x", 1}, {"x", 2}}, two), HasSubstr("there twice"));
  EXPECT_THAT(refused({{"x", 2}}, {"CPU:0", "CPU:0"}), HasSubstr("listed twice"));
  EXPECT_THAT(refused({}, {}), HasSubstr("empty"));
  EXPECT_THAT(refused(std::vector<MeshDimension>(9, {"x", 1}), {"CPU:0"}), HasSubstr("9 dimensions"));
}

TEST(Mesh, TextOfUnknownOriginIsRefusedWithThePlace) {
  configure_logical_cpus(2);
  const std::string devices = "CPU:0,CPU:1";
  EXPECT_EQ(Mesh::parse("|x=2|0,1|0,1|" + devices), Mesh({{"x", 2}}, configure_logical_cpus(2)));
  EXPECT_EQ(Mesh::parse("|x=2|0,1|0,1|" + devices + "|" + devices), Mesh({{"x", 2}}, configure_logical_cpus(2)));
  EXPECT_EQ(error_of([] { Mesh::parse("|x:2|0|0|CPU:0"); }),
            "invalid_argument: Mesh::parse: \"|x:2|0|0|CPU:0\" lacks \"=\" (at character 4)");
  for (const std::string text :
       {"", "|", "||||", "x=2", "|x=|0,1|0,1|CPU:0,CPU:1", "|x=2", "|x=2|", "|x=2|0,1", "|x=2|0,1|0,1", "|x=2|0,1|0,1|",
        "|x=2|0,1|0,1|CPU:0", "|x=2|0,1|0|CPU:0,CPU:1", "|x=2|1,2|1,2|CPU:0,CPU:1", "|x=2|0,2|0,2|CPU:0,CPU:1",
        "|x=2|0,1,|0,1|CPU:0,CPU:1", "|x=2,|0,1|0,1|CPU:0,CPU:1", "|=2|0,1|0,1|CPU:0,CPU:1",
        "|x=99999999999999999999|0,1|0,1|CPU:0,CPU:1", "|x=9223372036854775807,y=2|0,1|0,1|CPU:0,CPU:1",
        "|x=-2|0,1|0,1|CPU:0,CPU:1", "|x=0|0,1|0,1|CPU:0,CPU:1", "|x=1,x=2|0,1|0,1|CPU:0,CPU:1",
        "|x=2|0,1|0,1|CPU:0,,CPU:1", "|x=2|0,1|0,1|CPU:0,bogus", "|x=2|0,1|0,1|CPU:0,CPU:1|CPU:0",
        "|x=2|0,1|0,1|CPU:0,CPU:1||", "|x=2|0,1|0,1|CPU:0,CPU:1||use_xla_spmd",
        "|a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1|0|0|CPU:0"})
    EXPECT_EQ(code_of([&] { Mesh::parse(text); }), ErrorCode::invalid_argument) << text;
  EXPECT_EQ(code_of([] { Mesh::parse("|x=1|0|0|CPU:999"); }), ErrorCode::not_found);
  EXPECT_THAT(error_of([] { Mesh::parse(std::string(size_t{2} << 20, '0')); }), HasSubstr("2097152 characters"));
}

}  // namespace
}  // namespace tutti
