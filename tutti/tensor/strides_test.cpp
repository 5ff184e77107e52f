#include "tutti/tensor/strides.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

Tensor counted(std::vector<int64_t> sizes) { return at::arange(24, at::TensorOptions(at::kFloat)).view(sizes); }

TEST(Strides, OfAxesOfOneElementDoNotCount) {
  EXPECT_TRUE(are_same_strides({4, 1, 3}, {3, 3, 1}, {3, 99, 1}));
  EXPECT_FALSE(are_same_strides({4, 2, 3}, {6, 3, 1}, {6, 99, 1}));
  EXPECT_TRUE(are_same_strides({4, 0, 3}, {3, 3, 1}, {1, 7, 9}));  // of no element none does
  EXPECT_TRUE(are_same_strides({}, {}, {}));
}

TEST(Strides, OfACopyAreThoseOfClone) {
  const Tensor x = counted({2, 3, 4});
  for (const Tensor& tensor :
       {x, x.transpose(0, 2), x.permute({1, 2, 0}), x.slice(2, 0, 4, 2), x.transpose(0, 1).slice(2, 1, 3),
        x.slice(1, 0, 1).expand({2, 5, 4}), x.select(0, 1).t(), x.slice(0, 0, 0), x.select(0, 0).select(0, 0)[0]})
    EXPECT_EQ(at::IntArrayRef(strides_of_copy(tensor)), tensor.clone().strides()) << tensor.strides();
}

TEST(Strides, TellWhereElementsAreRepeated) {
  const Tensor x = counted({2, 12});
  EXPECT_FALSE(repeats_elements(x));
  EXPECT_TRUE(repeats_elements(x.slice(0, 0, 1).expand({5, 12})));
  EXPECT_FALSE(repeats_elements(x.slice(0, 0, 1).expand({1, 12})));
}

TEST(Strides, AWriteToRepeatedElementsTakesTheFirstOfEach) {
  const Tensor memory = at::zeros({1, 3});
  copy_into(memory.expand({8, 3}), counted({8, 3}));
  EXPECT_TRUE(at::equal(memory, counted({8, 3}).slice(0, 0, 1)));
  const Tensor plain = at::zeros({8, 3});
  copy_into(plain, counted({8, 3}));
  EXPECT_TRUE(at::equal(plain, counted({8, 3})));
}

TEST(Strides, AValueIsLaidOutAsAsked) {
  const Tensor x = counted({4, 6});
  for (const std::vector<int64_t>& strides : std::vector<std::vector<int64_t>>{{6, 1}, {1, 4}, {8, 1}, {2, 8}}) {
    const Tensor laid = laid_out(x, strides);
    EXPECT_EQ(laid.strides(), strides);
    EXPECT_TRUE(at::equal(laid, x));
  }
  EXPECT_TRUE(laid_out(x, {6, 1}).is_same(x));
}

TEST(Strides, GapsOfAValueThatIsLaidOutAreZeros) {
  const Tensor laid = laid_out(counted({4, 6}), {8, 1});
  EXPECT_TRUE(at::equal(laid.as_strided({3, 2}, {8, 1}, 6), at::zeros({3, 2})));
}

TEST(Strides, ARepeatedAxisIsLaidOutAsOneElement) {
  const Tensor rows = counted({2, 12}).slice(0, 0, 1).expand({5, 12});
  const Tensor laid = laid_out(rows.contiguous(), {0, 1});
  EXPECT_EQ(laid.strides(), (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(at::equal(laid, rows));
  EXPECT_EQ(laid.storage().nbytes(), 12 * sizeof(float));
}

}  // namespace
}  // namespace tutti
