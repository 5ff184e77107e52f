#include "tutti/data/mnist.h"

#include <gtest/gtest.h>

#include "tests/support/real_data.h"

namespace tutti::data {
namespace {

TEST(MnistOnRealData, HasSeventyThousandDigits) {
  const auto folder = real_data("mnist");
  if (!folder) GTEST_SKIP() << "needs MNIST: TUTTI_DATA_DIR names no folder that has mnist/";
  const Mnist mnist = load_mnist(*folder);
  EXPECT_EQ(mnist.train.cardinality(), 60000);
  EXPECT_EQ(mnist.test.cardinality(), 10000);
  const auto [images, labels] = *mnist.train.batch(60000).begin();
  EXPECT_EQ(images.sizes(), (std::vector<int64_t>{60000, 28, 28, 1}));
  EXPECT_EQ(images.scalar_type(), at::kByte);
  // LeCun et al. 1998: the first digit is a 5, and 5,923 are zeros.
  EXPECT_EQ(labels[0].item<int64_t>(), 5);
  EXPECT_EQ(labels.eq(0).sum().item<int64_t>(), 5923);
}

}  // namespace
}  // namespace tutti::data
