#include "tutti/tensor/random_seed.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

at::Tensor drawn(const at::Generator& generator) { return at::rand({8}, generator, at::TensorOptions(at::kDouble)); }
at::Generator of_replica(uint64_t seed, int replica) { return make_replica_generator(seed, replica, at::kCPU); }

TEST(RandomSeeds, GiveEachReplicaNumbersOfItsOwn) {
  EXPECT_TRUE(at::equal(drawn(of_replica(7, 1)), drawn(of_replica(7, 1))));
  EXPECT_FALSE(at::equal(drawn(of_replica(7, 1)), drawn(of_replica(7, 2))));
  EXPECT_FALSE(at::equal(drawn(of_replica(7, 1)), drawn(of_replica(8, 1))));
}

TEST(RandomSeeds, GiveNoReplicaTheNumbersOfTheSeedItself) {
  for (int replica = 0; replica < 4; ++replica)
    EXPECT_FALSE(at::equal(drawn(of_replica(7, replica)), drawn(make_generator(7, at::kCPU)))) << replica;
}

TEST(RandomSeeds, SetTheSameTwiceCountAsTwo) {
  set_random_seed(7);
  const RandomSeed first = random_seed();
  const at::Tensor numbers = at::rand({8});
  set_random_seed(7);
  EXPECT_EQ(random_seed().seed, 7u);
  EXPECT_NE(random_seed(), first);
  EXPECT_TRUE(at::equal(at::rand({8}), numbers));
}

}  // namespace
}  // namespace tutti
