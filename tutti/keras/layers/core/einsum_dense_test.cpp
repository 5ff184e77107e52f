#include "tutti/keras/layers/core/einsum_dense.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

void check(const EinsumDenseOptions& options, const Shape& input, const Shape& kernel, const Shape& bias) {
  const EinsumDense layer(options);
  const Tensor x = at::randn(input);
  const Tensor y = layer(x);
  EXPECT_EQ(layer.weights()[0].value.sizes(), kernel) << options.equation;
  Tensor expected = at::einsum(options.equation, {x, layer.weights()[0].value});
  if (!options.bias_axes.empty()) {
    EXPECT_EQ(layer.weights()[1].value.sizes(), bias) << options.equation;
    layer.set_weights({layer.weights()[0].value, at::randn(bias)});
    expected = expected + layer.weights()[1].value;
  }
  EXPECT_TRUE(at::allclose(layer(x), expected, 1e-5, 1e-6)) << options.equation;
  EXPECT_EQ(y.sizes(), layer.compute_output_shape(input)) << options.equation;
}

TEST(EinsumDense, HasTheKernelThatItsEquationSays) {
  check({.equation = "ab,bc->ac", .output_shape = {4}, .bias_axes = "c"}, {2, 3}, {3, 4}, {4});
  check({.equation = "abc,cd->abd", .output_shape = {kUnknown, 4}, .bias_axes = "d"}, {2, 5, 3}, {3, 4}, {4});
  check({.equation = "abc,cde->abde", .output_shape = {kUnknown, 4, 2}, .bias_axes = "de"}, {2, 5, 3}, {3, 4, 2},
        {4, 2});
  check({.equation = "abcd,cde->abe", .output_shape = {kUnknown, 4}}, {2, 5, 3, 6}, {3, 6, 4}, {});
  check({.equation = "abc,cde->abde", .output_shape = {kUnknown, 4, 2}, .bias_axes = "d"}, {2, 5, 3}, {3, 4, 2},
        {4, 1});
  check({.equation = "...x,xy->...y", .output_shape = {4}, .bias_axes = "y"}, {2, 5, 6, 3}, {3, 4}, {4});
  check({.equation = "...x,xy->...y", .output_shape = {4}}, {2, 3}, {3, 4}, {});
}

TEST(EinsumDense, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { EinsumDense({.equation = "ab,bc", .output_shape = {4}}); }),
              HasSubstr("it must be of the form"));
  EXPECT_THAT(error_of([] { EinsumDense({.equation = "ab,bc->ad", .output_shape = {4}}); }), HasSubstr("of the form"));
  EXPECT_THAT(error_of([] {
                EinsumDense({.equation = "ab,bc->ac", .output_shape = {4, 5}});
              }),
              HasSubstr("output_shape has 2 extents; the output of \"ab,bc->ac\" has 1 without the batch"));
  EXPECT_THAT(error_of([] { EinsumDense({.equation = "ab,bc->ac", .output_shape = {4}, .bias_axes = "b"}); }),
              HasSubstr("bias_axes is \"b\""));
  const EinsumDense layer({.equation = "ab,bc->ac", .output_shape = {4}});
  EXPECT_THAT(error_of([&] { layer(at::zeros({2, 3, 4})); }), HasSubstr("the input has shape (2, 3, 4)"));
  EXPECT_THAT(error_of([&] { layer.build({kUnknown, kUnknown}); }), HasSubstr("the extent of 'b' must be known"));
}

}  // namespace
}  // namespace tutti::keras::layers
