#include "tutti/keras/layers/merging/merge.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/merging/concatenate.h"
#include "tutti/keras/layers/merging/dot.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

TEST(Merge, CombinesElementwise) {
  const Tensor a = at::randn({2, 3}), b = at::randn({2, 3}), c = at::randn({2, 3});
  EXPECT_TRUE(at::allclose(Add()({a, b, c}), a + b + c));
  EXPECT_TRUE(at::allclose(Subtract()({a, b}), a - b));
  EXPECT_TRUE(at::allclose(Multiply()({a, b, c}), a * b * c));
  EXPECT_TRUE(at::allclose(Average()({a, b, c}), (a + b + c) / 3));
  EXPECT_TRUE(at::equal(Maximum()({a, b}), at::where(a > b, a, b)));
  EXPECT_TRUE(at::equal(Minimum()({a, b}), at::where(a > b, b, a)));
}

TEST(Merge, BroadcastsAndAddsAxesBehindTheBatch) {
  const Tensor images = at::randn({2, 4, 5, 3}), channels = at::randn({2, 3});
  const Add add;
  EXPECT_TRUE(at::allclose(add({images, channels}), images + channels.view({2, 1, 1, 3})));
  EXPECT_EQ(add.impl()->compute_output_shapes({{kUnknown, 4, 5, 3}, {kUnknown, 3}})[0], (Shape{kUnknown, 4, 5, 3}));
  EXPECT_EQ(add.impl()->compute_output_shapes({{kUnknown, 1, 3}, {7, 4, kUnknown}})[0], (Shape{7, 4, 3}));
}

// Two sequences of four steps, of which each hides two.
class MergeOfMasked : public testing::Test {
 protected:
  static Tensor sequence(const std::vector<float>& steps) { return at::tensor(steps).view({1, -1, 1}); }
  static Tensor mask(const std::vector<int64_t>& steps) { return at::tensor(steps).to(at::kBool).view({1, -1}); }
  void expect(const Layer& layer, const std::vector<Tensor>& masks, const std::vector<float>& expected) const {
    const Tensor merged = layer({a_, b_}, {.masks = masks});
    EXPECT_TRUE(at::equal(merged, sequence(expected))) << layer.name() << merged;
  }

  const Tensor a_ = sequence({1, 2, 3, 4}), b_ = sequence({10, 20, 30, -40});
  const Tensor in_a_ = mask({1, 1, 0, 0}), in_b_ = mask({1, 0, 1, 0});
};

TEST_F(MergeOfMasked, AddsHiddenStepsToo) {
  expect(Add(), {in_a_, in_b_}, {11, 22, 33, -36});
  expect(Add(), {in_a_, Tensor()}, {11, 22, 33, -36});
  expect(Subtract(), {in_a_, in_b_}, {-9, -18, -27, 44});
  expect(Average(), {in_a_, Tensor()}, {5.5, 11, 16.5, -18});
}

TEST_F(MergeOfMasked, MultipliesByOneWhereAnInputHidesAStep) {
  expect(Multiply(), {in_a_, in_b_}, {10, 2, 30, 0});  // none shows the last one
  expect(Multiply(), {in_a_, Tensor()}, {10, 40, 30, -40});
  EXPECT_TRUE(at::equal(Multiply()(std::vector{a_}, {.masks = {in_a_}}), sequence({1, 2, 0, 0})));
}

TEST_F(MergeOfMasked, ComparesShownStepsAlone) {
  expect(Minimum(), {in_a_, in_b_}, {1, 2, 30, 4});
  expect(Minimum(), {in_a_, Tensor()}, {1, 2, 30, -40});
  expect(Maximum(), {Tensor(), in_b_}, {10, 2, 30, 4});
}

TEST_F(MergeOfMasked, ShowsAStepThatAnyInputShows) {
  const Add add;
  EXPECT_TRUE(at::equal(add.impl()->compute_masks({a_, b_}, {in_a_, in_b_})[0], in_a_.logical_or(in_b_)));
  EXPECT_FALSE(add.impl()->compute_masks({a_, b_}, {in_a_, Tensor()})[0].defined());
}

TEST_F(MergeOfMasked, KnowsNoStepsOfAnInputThatGetsAxes) {
  const Tensor vectors = at::tensor({5.f, 6.f}).view({1, 2}), images = at::ones({1, 3, 2});
  const Tensor product = Multiply()({vectors, images}, {.masks = {mask({0, 0}), Tensor()}});
  EXPECT_TRUE(at::equal(product, vectors.view({1, 1, 2}).expand({1, 3, 2})));
}

TEST(Merge, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] {
                Add()({at::zeros({2, 3}), at::zeros({2, 4})});
              }),
              HasSubstr("add: the inputs have shapes (2, 3) and (2, 4), which do not fit"));
  EXPECT_THAT(error_of([] { Subtract()({at::zeros({2, 3})}); }), HasSubstr("subtract: takes 2 inputs, not 1"));
}

TEST(Concatenate, JoinsAlongAnAxis) {
  const Tensor a = at::randn({2, 3, 4}), b = at::randn({2, 5, 4});
  const Concatenate join({.axis = 1});
  EXPECT_TRUE(at::equal(join({a, b}), at::cat({a, b}, 1)));
  EXPECT_EQ(join.impl()->compute_output_shapes({{kUnknown, 3, 4}, {kUnknown, kUnknown, 4}})[0],
            (Shape{kUnknown, kUnknown, 4}));
  EXPECT_THAT(error_of([&] { Concatenate()({a, b}); }), HasSubstr("must be equal but for axis -1"));
  EXPECT_THAT(error_of([] { Concatenate({.axis = 0}); }), HasSubstr("axis 0 is the batch"));
}

TEST(Concatenate, JoinsMasks) {
  const Tensor a = at::randn({1, 2, 3}), b = at::randn({1, 1, 3});
  const Tensor mask = at::tensor({1, 0}).to(at::kBool).view({1, 2});
  const auto joined = Concatenate({.axis = 1}).impl()->compute_masks({a, b}, {mask, Tensor()});
  EXPECT_TRUE(at::equal(joined[0], at::tensor({1, 0, 1}).to(at::kBool).view({1, 3})));
}

TEST(Concatenate, JoinsMasksOfVectors) {
  const Tensor a = at::randn({3, 2}), b = at::randn({3, 4}), mask = at::tensor({1, 0, 1}).to(at::kBool);
  EXPECT_TRUE(at::equal(Concatenate().impl()->compute_masks({a, b}, {mask, mask})[0], mask));
  EXPECT_TRUE(Concatenate().impl()->compute_masks({a, b}, {mask, Tensor()})[0].all().item<bool>());
}

TEST(Dot, SumsOverOneAxisOfEach) {
  const Tensor a = at::arange(10, at::kFloat).view({1, 5, 2}), b = at::arange(10, 20, at::kFloat).view({1, 2, 5});
  EXPECT_TRUE(at::equal(Dot({.first_axis = 1, .second_axis = 2})({a, b}),
                        at::tensor({260.f, 360.f, 320.f, 445.f}).view({1, 2, 2})));
  const Tensor c = at::randn({3, 2, 4, 5}), d = at::randn({3, 5, 6});
  EXPECT_TRUE(
      at::allclose(Dot({.first_axis = 3, .second_axis = 1})({c, d}), at::einsum("nabk,nkc->nabc", {c, d}), 1e-4, 1e-5));
  EXPECT_TRUE(Dot().impl()->compute_masks({c, d}, {at::ones({3}, at::kBool), at::ones({3}, at::kBool)}).empty());
  const Tensor u = at::randn({3, 4}), v = at::randn({3, 4});
  EXPECT_TRUE(at::allclose(Dot()({u, v}), (u * v).sum(1, true), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(Dot({.normalize = true})({u, u * 3}), at::full({3, 1}, 1.0)));
  const Tensor large = (u * 3000).to(at::kHalf), none = at::zeros({3, 4}, at::kHalf);
  EXPECT_TRUE(at::allclose(Dot({.normalize = true})({large, large}).to(at::kFloat), at::full({3, 1}, 1.0), 0.01, 0));
  EXPECT_EQ(Dot({.normalize = true})({large, none}).abs().sum().item<double>(), 0);
  EXPECT_TRUE(at::allclose(Dot({.first_axis = 1, .second_axis = 2})({u, at::randn({3, 2, 4}).fill_(1)}),
                           u.sum(1, true).expand({3, 2})));
  EXPECT_THAT(error_of([&] { Dot()({u, at::zeros({3, 5})}); }), HasSubstr("axes -1 and -1 have 4 and 5 elements"));
}

}  // namespace
}  // namespace tutti::keras::layers
