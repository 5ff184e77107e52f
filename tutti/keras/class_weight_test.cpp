#include "tutti/keras/class_weight.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras {
namespace {

using ::testing::HasSubstr;

const std::map<int64_t, double> kWeights{{0, 0.5}, {2, 3.0}};

Tensor weights_of(const Tensor& y) { return weigh_classes({.x = y, .y = y}, kWeights); }

TEST(ClassWeight, IsThatOfTheClassOrOne) {
  const Tensor expected = at::tensor({0.5F, 1.F, 3.F, 1.F}), classes = at::tensor({0, 1, 2, 7});
  for (const auto dtype : {at::kByte, at::kInt, at::kLong, at::kHalf, at::kFloat})
    for (const Tensor& y : {classes.to(dtype), classes.to(dtype).unsqueeze(1)})
      EXPECT_TRUE(at::equal(weights_of(y), expected)) << y;
  EXPECT_TRUE(at::equal(weights_of(at::tensor({0, 1}).to(at::kBool)), at::tensor({0.5F, 1.F})));
  const Tensor distributions = at::tensor({0.6F, 0.3F, 0.1F, 0.2F, 0.3F, 0.5F}).view({2, 3});
  EXPECT_TRUE(at::equal(weights_of(distributions), at::tensor({0.5F, 3.F})));
}

TEST(ClassWeight, IsOfTheNearestClass) {
  const Tensor y = at::tensor({0.1F, -0.4F, 0.5F, 0.9F, 1.5F, 1.9999F, 2.4F, 2.5F, 2.6F});  // halves to even
  const Tensor expected = at::tensor({0.5F, 0.5F, 0.5F, 1.F, 3.F, 3.F, 3.F, 3.F, 1.F});
  EXPECT_TRUE(at::equal(weights_of(y), expected)) << weights_of(y);
  EXPECT_TRUE(at::equal(weights_of(y.unsqueeze(1)), expected));
}

TEST(ClassWeight, RefusesWhatItCannotWeigh) {
  const Tensor y = at::tensor({0.F, 1.F});
  EXPECT_THAT(error_of([&] { weigh_classes({.x = y, .y = y, .sample_weight = y}, kWeights); }),
              HasSubstr("use one of them"));
  EXPECT_THAT(error_of([&] { weigh_classes({.x = y, .y = {y, y}}, kWeights); }), HasSubstr("there are 2 labels"));
  EXPECT_THAT(error_of([&] { weights_of(y.view({1, 1, 2})); }), HasSubstr("they have shape (1, 1, 2)"));
}

}  // namespace
}  // namespace tutti::keras
