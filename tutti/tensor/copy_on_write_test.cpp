#include "tutti/tensor/copy_on_write.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace tutti {
namespace {

TEST(CopyOnWrite, AShareIsTheSameMemoryUntilOneSideIsWritten) {
  const Tensor value = at::arange(6.0).view({2, 3}).t();
  const Tensor share = share_or_copy(value);
  EXPECT_EQ(share.const_data_ptr(), value.const_data_ptr());
  EXPECT_EQ(share.strides(), value.strides());
  value.zero_();
  EXPECT_TRUE(at::equal(share, at::arange(6.0).view({2, 3}).t()));
  EXPECT_TRUE(at::equal(value, at::zeros({3, 2})));
}

TEST(CopyOnWrite, MemoryOfOthersIsCopied) {
  std::array<float, 2> memory{1, 2};
  const Tensor value = at::from_blob(memory.data(), {2});
  EXPECT_FALSE(share_storage(value));
  const Tensor copy = share_or_copy(value);
  memory[0] = 5;
  EXPECT_EQ(copy[0].item<float>(), 1);
}

TEST(CopyOnWrite, APartIsCopiedWhereAllOfTheMemoryWouldBeKept) {
  const Tensor value = at::arange(6.0);
  const Tensor part = value.narrow(0, 0, 2);
  EXPECT_EQ(share_or_copy(part).const_data_ptr(), part.const_data_ptr());
  const Tensor own = share_whole_or_copy(part);
  EXPECT_NE(own.const_data_ptr(), part.const_data_ptr());
  EXPECT_EQ(own.storage().nbytes(), own.nbytes());
}

TEST(CopyOnWrite, ATensorThatLeavesItsShareHasItsValueInMemoryOfItsOwn) {
  const Tensor value = at::arange(3.0);
  const Tensor share = share_or_copy(value);
  leave_share(share);
  EXPECT_NE(share.const_data_ptr(), value.const_data_ptr());
  EXPECT_TRUE(at::equal(share, value));
}

TEST(CopyOnWrite, EitherSideMayBeResized) {
  for (const int64_t size : {0, 2, 3, 700})
    for (const bool first : {true, false}) {
      const Tensor value = at::arange(3.0), share = share_or_copy(value);
      const Tensor& resized = first ? value : share;
      const Tensor& other = first ? share : value;
      resized.resize_({size});
      const Tensor again = share_or_copy(resized);
      resized.zero_();
      EXPECT_TRUE(at::equal(resized, at::zeros({size})));
      EXPECT_TRUE(at::equal(other, at::arange(3.0))) << size;
      again.resize_({900}).zero_();
      EXPECT_TRUE(at::equal(resized, at::zeros({size})));
    }
}

// As replicas do when they first look: all take shares of one memory, and drop them while it is kept.
TEST(CopyOnWrite, SeveralThreadsMayShareOneMemoryAtOnce) {
  for (int round = 0; round < 50; ++round) {
    const Tensor value = at::arange(4.0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&value] {
        for (int i = 0; i < 20; ++i) {
          const Tensor share = share_or_copy(value);
          if (i % 2) share.add_(1);
          EXPECT_EQ(share.const_data_ptr<float>()[3], 3 + i % 2);
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(at::equal(value, at::arange(4.0)));
  }
}

}  // namespace
}  // namespace tutti
