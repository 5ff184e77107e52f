// What is read from the schemas of ops, and what of single ops they do not say.
#include "tutti/tensor/operator_info.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>

namespace tutti {
namespace {

using testing::Each;
using testing::ElementsAre;

OperatorInfo info_of_op(const char* name, const char* overload = "") {
  return OperatorInfo(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
}

TEST(OperatorInfos, KnowWhatAnOpWritesAndWhichResultThatIs) {
  const OperatorInfo in_place = info_of_op("aten::add_", "Tensor");
  EXPECT_THAT(in_place.writes, ElementsAre(true, false, false));
  EXPECT_THAT(in_place.written_return, ElementsAre(0));
  EXPECT_TRUE(in_place.writes_any);
  EXPECT_FALSE(in_place.writes_out);

  const OperatorInfo out = info_of_op("aten::max", "dim_max");
  EXPECT_THAT(out.writes, ElementsAre(false, false, false, true, true));
  EXPECT_THAT(out.written_return, ElementsAre(3, 4));
  EXPECT_TRUE(out.writes_out);

  const OperatorInfo pure = info_of_op("aten::add", "Tensor");
  EXPECT_THAT(pure.writes, Each(false));
  EXPECT_THAT(pure.written_return, ElementsAre(-1));
  EXPECT_FALSE(pure.writes_any);
}

TEST(OperatorInfos, KnowTheStatisticsThatBatchNormWritesUnsaid) {
  EXPECT_THAT(info_of_op("aten::native_batch_norm").writes,
              ElementsAre(false, false, false, true, true, false, false, false));
}

TEST(OperatorInfos, KnowViewsAndThoseInTheSameOrder) {
  EXPECT_TRUE(info_of_op("aten::t").is_view);
  EXPECT_TRUE(info_of_op("aten::split", "Tensor").is_view);
  EXPECT_TRUE(info_of_op("aten::unsafe_split", "Tensor").is_view);  // says nothing of it
  EXPECT_FALSE(info_of_op("aten::add_", "Tensor").is_view);
  EXPECT_FALSE(info_of_op("aten::clone").is_view);
  EXPECT_TRUE(info_of_op("aten::view").is_reshape);
  EXPECT_FALSE(info_of_op("aten::t").is_reshape);
}

TEST(OperatorInfos, KnowWhichArgumentsAreScalars) {
  EXPECT_THAT(info_of_op("aten::add", "Tensor").is_number, ElementsAre(false, false, true));
  EXPECT_THAT(info_of_op("aten::clamp").is_number, ElementsAre(false, true, true));
  EXPECT_THAT(info_of_op("aten::select", "int").is_number, Each(false));
  EXPECT_THAT(info_of_op("aten::native_dropout").is_number, Each(false));  // a float, which is known by its kind anyway
}

TEST(OperatorInfos, KnowWhatChangesTheGeometryOfItsArgument) {
  EXPECT_TRUE(info_of_op("aten::t_").changes_geometry);
  EXPECT_TRUE(info_of_op("aten::squeeze_").changes_geometry);
  EXPECT_FALSE(info_of_op("aten::detach_").changes_geometry);
  EXPECT_FALSE(info_of_op("aten::add_", "Tensor").changes_geometry);
}

TEST(OperatorInfos, KnowWhatDraws) {
  EXPECT_TRUE(info_of_op("aten::normal_").draws);
  EXPECT_TRUE(info_of_op("aten::native_dropout").draws);
  EXPECT_FALSE(info_of_op("aten::add", "Tensor").draws);
  EXPECT_FALSE(info_of_op("aten::_scaled_dot_product_flash_attention_for_cpu").draws);
}

TEST(OperatorInfos, KnowWhereAnOutputMaskStands) {
  EXPECT_EQ(info_of_op("aten::convolution_backward").output_mask, 10);
  EXPECT_EQ(info_of_op("aten::mm").output_mask, -1);
}

TEST(OperatorInfos, KnowWhatLibTorchComposes) {
  EXPECT_TRUE(info_of_op("aten::matmul").is_composite);
  EXPECT_TRUE(info_of_op("aten::_foreach_add", "List").is_composite);
  EXPECT_FALSE(info_of_op("aten::mm").is_composite);
  EXPECT_FALSE(info_of_op("aten::einsum").is_composite);  // which has a rule
  EXPECT_NE(info_of_op("aten::einsum").rule, nullptr);
}

}  // namespace
}  // namespace tutti
