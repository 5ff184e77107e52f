#include "tutti/keras/layers/merging/merge.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
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

TEST(Merge, TakesMaskedStepsFromTheInputWhereTheyCount) {
  const Tensor a = at::tensor({1.f, 2.f, 3.f, 4.f}).view({1, 4, 1}), b = a * 10;
  const Tensor in_a = at::tensor({1, 1, 0, 0}).to(at::kBool).view({1, 4}),
               in_b = at::tensor({1, 0, 1, 0}).to(at::kBool).view({1, 4});
  const Add add;
  const Tensor sum = add({a, b}, {.masks = {in_a, in_b}}).flatten();
  EXPECT_TRUE(at::equal(sum.slice(0, 0, 3), at::tensor({11.f, 4.f, 60.f})));  // a step of one input stands for both
  EXPECT_TRUE(at::equal(add.impl()->compute_masks({a, b}, {in_a, in_b})[0], in_a.logical_or(in_b)));
  EXPECT_TRUE(add.impl()->compute_masks({a, b}, {in_a, Tensor()}).empty());
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

TEST(Dot, SumsOverOneAxisOfEach) {
  const Tensor a = at::arange(10, at::kFloat).view({1, 5, 2}), b = at::arange(10, 20, at::kFloat).view({1, 2, 5});
  EXPECT_TRUE(at::equal(Dot({.first_axis = 1, .second_axis = 2})({a, b}),
                        at::tensor({260.f, 360.f, 320.f, 445.f}).view({1, 2, 2})));
  const Tensor c = at::randn({3, 2, 4, 5}), d = at::randn({3, 5, 6});
  EXPECT_TRUE(
      at::allclose(Dot({.first_axis = 3, .second_axis = 1})({c, d}), at::einsum("nabk,nkc->nabc", {c, d}), 1e-4, 1e-5));
  const Tensor u = at::randn({3, 4}), v = at::randn({3, 4});
  EXPECT_TRUE(at::allclose(Dot()({u, v}), (u * v).sum(1, true), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(Dot({.normalize = true})({u, u * 3}), at::full({3, 1}, 1.0)));
  EXPECT_TRUE(at::allclose(Dot({.first_axis = 1, .second_axis = 2})({u, at::randn({3, 2, 4}).fill_(1)}),
                           u.sum(1, true).expand({3, 2})));
  EXPECT_THAT(error_of([&] { Dot()({u, at::zeros({3, 5})}); }), HasSubstr("axes -1 and -1 have 4 and 5 elements"));
}

}  // namespace
}  // namespace tutti::keras::layers
