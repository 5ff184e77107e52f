// The strides that are foretold of results, beside those that LibTorch's kernels give.
#include "tutti/tensor/result_geometries.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <map>

#include "tutti/tensor/operator_info.h"

namespace tutti {
namespace {

using at::Tensor;
using Arguments = std::vector<at::IValue>;

ResultGeometries foretell(const c10::OperatorHandle& op, const Arguments& arguments) {
  return ResultGeometries(op, OperatorInfo(op), arguments);
}

// How many tensors the results hold whose strides were foretold; each as the kernel gives them.
int foretold(const char* name, const char* overload, const Arguments& arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const ResultGeometries geometries = foretell(op, arguments);
  torch::jit::Stack results(arguments.begin(), arguments.end());
  op.callBoxed(results);
  int count = 0;
  const auto compare = [&](size_t result, int item, const Tensor& tensor) {
    const auto strides = geometries.strides(result, item, tensor.sizes());
    if (!strides) return;
    EXPECT_EQ(*strides, tensor.strides()) << name << ", result " << result << ", item " << item;
    ++count;
  };
  for (size_t r = 0; r < results.size(); ++r) {
    if (results[r].isTensor()) compare(r, -1, results[r].toTensor());
    if (!results[r].isTensorList()) continue;
    const auto items = results[r].toTensorVector();
    for (size_t i = 0; i < items.size(); ++i) compare(r, static_cast<int>(i), items[i]);
  }
  return count;
}

Tensor ones(std::vector<int64_t> sizes, at::ScalarType type = at::kFloat) {
  return at::ones(sizes, at::TensorOptions(type));
}

TEST(ForetoldStrides, AreTheKernels) {
  const Tensor x = ones({3, 4}), turned = ones({4, 3}).t(), gaps = ones({3, 8}).slice(1, 0, 8, 2);
  EXPECT_EQ(foretold("aten::t", "", {x}), 1);
  EXPECT_EQ(foretold("aten::neg", "", {turned}), 1);
  EXPECT_EQ(foretold("aten::neg", "", {gaps}), 1);
  EXPECT_EQ(foretold("aten::add", "Tensor", {turned, x, 1}), 1);
  EXPECT_EQ(foretold("aten::mm", "", {turned, ones({4, 5})}), 1);
  EXPECT_EQ(foretold("aten::sum", "dim_IntList", {turned, std::vector<int64_t>{0}, true, {}}), 1);
  EXPECT_EQ(foretold("aten::split", "Tensor", {turned, 2, 1}), 2);
}

TEST(ForetoldStrides, AreTheKernelsWhereOperandsAreCastFirst) {
  const Tensor gaps = ones({3, 8}, at::kInt).slice(1, 0, 8, 2).t();
  EXPECT_EQ(foretold("aten::add", "Tensor", {gaps, ones({4, 3}), 1}), 1);
  EXPECT_EQ(foretold("aten::mul", "Tensor", {gaps, ones({}, at::kDouble)}), 1);
  EXPECT_EQ(foretold("aten::lt", "Scalar", {gaps, 2.5}), 1);
}

TEST(ForetoldStrides, OfConvolutionsFollowTheChannels) {
  const auto last = [](const Tensor& tensor) { return tensor.contiguous(at::MemoryFormat::ChannelsLast); };
  const Tensor images = ones({2, 3, 5, 6}), weight = ones({4, 3, 2, 2});
  const auto convolve = [](const Tensor& x, const Tensor& w, bool transposed) {
    const std::vector<int64_t> ones_of(static_cast<size_t>(x.dim() - 2), 1), zeros_of(ones_of.size(), 0);
    return foretold("aten::convolution", "", {x, w, {}, ones_of, zeros_of, ones_of, transposed, zeros_of, 1});
  };
  EXPECT_EQ(convolve(images, weight, false), 1);
  EXPECT_EQ(convolve(last(images), weight, false), 1);
  EXPECT_EQ(convolve(images, last(weight), false), 1);
  EXPECT_EQ(convolve(last(images), ones({3, 4, 2, 2}), true), 1);
  EXPECT_EQ(convolve(ones({2, 3, 7}), ones({4, 3, 2}), false), 1);
  const Tensor space = ones({2, 3, 4, 5, 6}), kernels = ones({4, 3, 2, 2, 2});
  EXPECT_EQ(convolve(space, kernels, false), 1);
  for (const int64_t count : {1, 2})  // for which LibTorch has two kernels
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const Tensor some = space.slice(0, 0, count).to(type).contiguous(at::MemoryFormat::ChannelsLast3d);
      EXPECT_EQ(convolve(some, kernels.to(type), false), 1);
      EXPECT_EQ(convolve(some, ones({3, 4, 2, 2, 2}, type), true), 1);
    }
}

TEST(ForetoldStrides, OfComplexAnglesAreRowMajor) {
  EXPECT_EQ(foretold("aten::angle", "", {ones({3, 4}, at::kComplexFloat).t()}), 1);
  EXPECT_EQ(foretold("aten::angle", "", {ones({3, 4}).t()}), 1);
}

TEST(ForetoldStrides, AreOfTheSizesThatWereForetold) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::t", "");
  const ResultGeometries geometries = foretell(op, {ones({3, 4})});
  EXPECT_TRUE(geometries.strides(0, -1, {4, 3}));
  EXPECT_FALSE(geometries.strides(0, -1, {4, 2}));
  EXPECT_FALSE(geometries.strides(1, -1, {4, 3}));
}

TEST(ForetoldStrides, AreNoneWhereNoResultIsNewOrTheKernelNeedsMemory) {
  EXPECT_EQ(foretold("aten::add_", "Tensor", {ones({3, 4}), ones({4}), 1}), 0);
  EXPECT_EQ(foretold("aten::nonzero", "", {ones({3, 4})}), 0);
}

TEST(ForetoldStrides, OfAViewThatLibTorchRefusesAreItsError) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::view", "");
  EXPECT_THROW(foretell(op, {ones({3, 4}).t(), std::vector<int64_t>{12}}), c10::Error);
}

}  // namespace
}  // namespace tutti
