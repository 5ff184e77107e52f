#include "tutti/tensor/of_meshes.h"

#include <gtest/gtest.h>

#include "tutti/device/logical_devices.h"
#include "tutti/tensor/spec.h"

namespace tutti {
namespace {

const MeshShape* shape(int size) { return MeshShape::of(Mesh({{"x", size}}, configure_logical_cpus(size))); }

TEST(OfMeshes, AreFoundByMeshAsLongAsTheirOwnersKeepThem) {
  OfMeshes<int> things;
  EXPECT_EQ(things.find(shape(2)), nullptr);
  auto thing = std::make_shared<int>(7);
  things.set(shape(2), thing);
  EXPECT_EQ(things.find(shape(2)), thing);
  EXPECT_EQ(things.find(shape(3)), nullptr);
  thing.reset();
  EXPECT_EQ(things.find(shape(2)), nullptr);
}

TEST(OfMeshes, TheLastThatWasSetCounts) {
  OfMeshes<int> things;
  const auto first = std::make_shared<int>(1), second = std::make_shared<int>(2);
  things.set(shape(2), first);
  things.set(shape(2), second);
  EXPECT_EQ(things.find(shape(2)), second);
}

}  // namespace
}  // namespace tutti
