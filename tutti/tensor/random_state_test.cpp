#include "tutti/tensor/random_state.h"

#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

const std::vector<c10::Device> kTwo(2, c10::Device(c10::kCPU));

Tensor draw(ReplicaGenerators& generators, int replica) {
  generators.follow_seed();
  return at::rand({4}, *generators.of(replica));
}

TEST(RandomState, NumbersGoOnWhereTheyWere) {
  set_random_seed(3);
  ReplicaGenerators generators(kTwo);
  draw(generators, 1);
  const Tensor state = random_state();
  const Tensor own = at::rand({4});
  const Tensor first = draw(generators, 0);
  const Tensor second = draw(generators, 1);
  set_random_seed(4);
  draw(generators, 0);
  restore_random_state(state);
  EXPECT_TRUE(at::rand({4}).equal(own));
  EXPECT_TRUE(draw(generators, 0).equal(first));
  EXPECT_TRUE(draw(generators, 1).equal(second));
}

TEST(RandomState, IsRestoredBeforeTheFirstDraw) {
  set_random_seed(3);
  Tensor state, next;
  {
    ReplicaGenerators generators(kTwo);
    draw(generators, 0);
    state = random_state();
    next = draw(generators, 0);
  }
  set_random_seed(5);
  ReplicaGenerators again(kTwo);
  restore_random_state(state);
  EXPECT_TRUE(draw(again, 0).equal(next));
}

TEST(RandomState, ReplicasThatWereNotSavedKeepTheirNumbers) {
  set_random_seed(3);
  Tensor state;
  {
    ReplicaGenerators two(kTwo);
    state = random_state();
  }
  ReplicaGenerators three(std::vector<c10::Device>(3, c10::Device(c10::kCPU)));
  const Tensor third = draw(three, 2);
  set_random_seed(3);
  restore_random_state(state);
  EXPECT_TRUE(draw(three, 2).equal(third));
}

TEST(RandomState, EveryTruncationIsNoticed) {
  ReplicaGenerators generators(kTwo);
  const Tensor state = random_state();
  for (const int64_t size : {int64_t{0}, int64_t{7}, int64_t{100}, state.numel() / 2, state.numel() - 1})
    EXPECT_EQ(code_of([&] { restore_random_state(state.narrow(0, 0, size)); }), ErrorCode::data_loss) << size;
}

}  // namespace
}  // namespace tutti
