#include "tutti/collectives/brought.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti {
namespace {

TEST(Brought, IsWhatEachReplicaGaveInTheirOrder) {
  int first = 1, second = 2;
  const std::array<void*, 2> payloads{&first, &second};
  const Brought<int> brought(payloads);
  ASSERT_EQ(brought.size(), 2);
  EXPECT_EQ(brought[0], 1);
  brought[1] = 5;
  EXPECT_EQ(second, 5);
}

TEST(TypeKeys, AreOneForEachType) {
  EXPECT_EQ(type_key<int>(), type_key<int>());
  EXPECT_NE(type_key<int>(), type_key<long>());
  EXPECT_NE(type_key<int>(), 0u);
}

}  // namespace
}  // namespace tutti
