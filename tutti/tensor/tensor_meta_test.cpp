#include "tutti/tensor/tensor_meta.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/conj.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using testing::ElementsAre;

class Metadata : public testing::Test {
 protected:
  Mesh mesh_{{{"x", 3}}, configure_logical_cpus(3), {.merge = false}};
  Layout columns_{{kUnsharded, "x"}, mesh_};
};

TEST_F(Metadata, IsOfTheWholeValueInTheOrderOfItsComponents) {
  const Tensor value = distribute_tensor(at::zeros({6, 4}, at::kInt).t(), columns_);
  const TensorMeta meta = mesh_impl(value).meta();
  EXPECT_EQ(meta.dtype, caffe2::TypeMeta::Make<int>());
  EXPECT_THAT(meta.strides, ElementsAre(1, 4));
  EXPECT_TRUE(meta.bits.empty());
}

TEST_F(Metadata, TellsOfWhatComponentsHaveYetToCompute) {
  const Tensor value = distribute_tensor(at::zeros({2, 6}, at::kComplexFloat), columns_);
  EXPECT_EQ(mesh_impl(value.conj()).meta().bits, c10::DispatchKeySet(c10::DispatchKey::Conjugate));
}

// As in a process that holds none of the pieces.
TEST_F(Metadata, IsKnownOfATensorWithoutComponents) {
  const Tensor there = distribute_tensor(at::zeros({6, 4}, at::kInt).t(), columns_);
  const auto& impl = mesh_impl(there);
  const Tensor here = at::detail::make_tensor<MeshTensorImpl>(impl.spec(), impl.meta());
  EXPECT_TRUE(is_mesh_tensor(here));
  EXPECT_TRUE(mesh_impl(here).components().empty());
  for (const Tensor& tensor : {here, Tensor(here.variable_data())}) {
    EXPECT_EQ(tensor.sizes(), there.sizes());
    EXPECT_EQ(tensor.strides(), there.strides());
    EXPECT_EQ(tensor.scalar_type(), at::kInt);
    EXPECT_EQ(tensor.device(), there.device());
    EXPECT_EQ(layout_of(tensor), columns_);
    EXPECT_FALSE(mesh_impl(tensor).whole());
    EXPECT_EQ(code_of([&] { gather(tensor); }), ErrorCode::unimplemented);
    EXPECT_EQ(code_of([&] { tensor.add(1); }), ErrorCode::unimplemented);
  }
}

// The pieces of one column each have strides that say nothing of their order.
TEST_F(Metadata, OrdersTheAxesOfAGatheredValue) {
  const Tensor value = at::arange(6.0).view({3, 2}).t();
  const Tensor gathered = gather(distribute_tensor(value, columns_));
  EXPECT_TRUE(at::equal(gathered, value));
  EXPECT_EQ(gathered.strides(), distribute_tensor(value, columns_).strides());
}

}  // namespace
}  // namespace tutti
