// What LibTorch says of operands without memory.
#include "tutti/tensor/size_check.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

namespace tutti {
namespace {

using Arguments = std::vector<at::IValue>;

torch::jit::Stack check(const char* name, const char* overload, const Arguments& arguments) {
  return check_sizes(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), arguments);
}

TEST(SizeChecks, ReturnWhatTheOpWouldInNoMemory) {
  const auto results = check("aten::mm", "", {at::ones({2, 3}), at::ones({3, 4})});
  ASSERT_EQ(results.size(), 1);
  EXPECT_EQ(results[0].toTensor().sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_TRUE(results[0].toTensor().is_meta());
}

TEST(SizeChecks, TakeListsAndAbsentTensors) {
  const std::vector<at::Tensor> parts{at::ones({2, 3}), at::ones({4, 3})};
  EXPECT_EQ(check("aten::cat", "", {parts, 0})[0].toTensor().size(0), 6);
  const c10::List<std::optional<at::Tensor>> indices{std::nullopt, at::arange(2)};
  EXPECT_EQ(check("aten::index", "Tensor", {at::ones({4, 3}), indices})[0].toTensor().size(1), 2);
}

TEST(SizeChecks, ThrowWhatLibTorchSaysIsWrong) {
  try {
    check("aten::mm", "", {at::ones({2, 3}), at::ones({4, 4})});
    FAIL() << "taken";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cannot be multiplied"));
  }
}

TEST(SizeChecks, KnowNothingOfAnOpThatNeedsMemory) {
  EXPECT_TRUE(check("aten::_local_scalar_dense", "", {at::ones({})}).empty());
}

TEST(SizeChecks, WriteToNoOperand) {
  const at::Tensor x = at::zeros({3});
  check("aten::add_", "Tensor", {x, at::ones({3}), 1});
  EXPECT_EQ(x.sum().item<float>(), 0);
}

TEST(TensorsWithoutMemory, HaveTheGeometryAndTheTypeOfTheOther) {
  const at::Tensor turned = at::zeros({2, 3}, at::TensorOptions(at::kHalf)).t();
  const at::Tensor bare = without_memory(turned);
  EXPECT_TRUE(bare.is_meta());
  EXPECT_EQ(bare.sizes(), turned.sizes());
  EXPECT_EQ(bare.strides(), turned.strides());
  EXPECT_EQ(bare.scalar_type(), at::kHalf);
  EXPECT_FALSE(without_memory({}).defined());
}

// A number counts less than a tensor where the type of a result is found.
TEST(TensorsWithoutMemory, AreNumbersWhereTheOtherIs) {
  const at::Tensor number = at::scalar_tensor(2.0, at::TensorOptions(at::kDouble));
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  const auto results = check("aten::add", "Tensor", {at::ones({3}), number, 1});
  EXPECT_EQ(results[0].toTensor().scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace tutti
