#include "tutti/tensor/dtype_of.h"

#include <gtest/gtest.h>

#include <set>

namespace tutti {
namespace {

TEST(DtypeOf, NamesEachDtypeOfCollectivesOnceAndNoOther) {
  std::set<Dtype> named;
  for (int8_t number = 0; number < static_cast<int8_t>(at::ScalarType::NumOptions); ++number) {
    const auto type = static_cast<at::ScalarType>(number);
    const auto dtype = dtype_of(type);
    if (!dtype) continue;
    EXPECT_TRUE(named.insert(*dtype).second) << type;
    EXPECT_EQ(size_of(*dtype), c10::elementSize(type)) << type;
    EXPECT_EQ(is_integral(*dtype), c10::isIntegralType(type, /*includeBool=*/false)) << type;
  }
  EXPECT_EQ(named.size(), static_cast<size_t>(Dtype::int64) + 1);
}

TEST(DtypeOf, KnowsNoneForWhatIsNotSummed) {
  for (const auto type : {at::kBool, at::kFloat8_e4m3fn, at::kQInt8, at::kUInt16, at::ScalarType::Undefined})
    EXPECT_FALSE(dtype_of(type)) << type;
}

}  // namespace
}  // namespace tutti
