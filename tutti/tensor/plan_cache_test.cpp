// By what plans are found, and how many are kept.
#include "tutti/tensor/plan_cache.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"

namespace tutti {
namespace {

using Arguments = std::vector<at::IValue>;

class PlanKeys : public testing::Test {
 protected:
  Mesh mesh_{{{"x", 2}, {"y", 2}}, configure_logical_cpus(4), {.merge = false}};

  Tensor tensor(std::vector<int64_t> sizes, const std::vector<std::string>& axes, at::ScalarType type = at::kFloat) {
    return distribute_tensor(at::zeros(sizes, at::TensorOptions(type)), Layout(axes, mesh_));
  }
  static PlanCache::Key key(const char* name, const char* overload, const Arguments& arguments, bool strides = false) {
    const OperatorInfo info(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
    return PlanCache::key_of(info, arguments, strides);
  }

  Tensor x_ = tensor({4, 6}, {"x", "y"});
};

TEST_F(PlanKeys, TellLayoutsSizesAndIntegersApart) {
  const auto of = [](const Tensor& self, int64_t reduction, double beta) {
    return key("aten::smooth_l1_loss", "", {self, self, reduction, beta});
  };
  EXPECT_EQ(of(x_, 1, 0.5), of(tensor({4, 6}, {"x", "y"}), 1, 2.5));
  EXPECT_NE(of(x_, 1, 0.5), of(x_, 2, 0.5));
  EXPECT_NE(of(x_, 1, 0.5), of(tensor({4, 6}, {"y", "x"}), 1, 0.5));
  EXPECT_NE(of(x_, 1, 0.5), of(tensor({4, 8}, {"x", "y"}), 1, 0.5));
}

TEST_F(PlanKeys, TellTheKindsOfScalarsApartAndNotTheirValues) {
  const auto of = [&](const at::Scalar& scalar) { return key("aten::add", "Scalar", {x_, scalar, 1}); };
  EXPECT_EQ(of(1), of(2));
  EXPECT_EQ(of(1.5), of(2.5));
  const std::vector<PlanCache::Key> kinds{of(1), of(1.5), of(true), of(c10::complex<double>(0, 1))};
  for (size_t i = 0; i < kinds.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(kinds[i], kinds[j]) << i << ' ' << j;
}

TEST_F(PlanKeys, TellAnAbsentScalarFromOneThatIsThere) {
  EXPECT_NE(key("aten::clamp", "", {x_, 0, {}}), key("aten::clamp", "", {x_, {}, 0}));
  EXPECT_EQ(key("aten::clamp", "", {x_, 0, {}}), key("aten::clamp", "", {x_, 7, {}}));
}

TEST_F(PlanKeys, TellListsOfIntegersApart) {
  const auto of = [&](std::vector<int64_t> axes) { return key("aten::amax", "", {x_, std::move(axes), false}); };
  EXPECT_EQ(of({0}), of({0}));
  EXPECT_NE(of({0}), of({1}));
  EXPECT_NE(of({0}), of({0, 1}));
  EXPECT_NE(of({}), of({0}));
}

TEST_F(PlanKeys, TellStridesAndTypesApartWhereThatIsAsked) {
  const Tensor doubles = tensor({4, 6}, {"x", "y"}, at::kDouble), turned = tensor({6, 4}, {"y", "x"}).t();
  EXPECT_EQ(key("aten::neg", "", {x_}), key("aten::neg", "", {doubles}));
  EXPECT_EQ(key("aten::neg", "", {x_}), key("aten::neg", "", {turned}));
  EXPECT_NE(key("aten::neg", "", {x_}, true), key("aten::neg", "", {doubles}, true));
  EXPECT_NE(key("aten::neg", "", {x_}, true), key("aten::neg", "", {turned}, true));
}

TEST(PlanCaches, MakeAPlanOnce) {
  PlanCache cache;
  int made = 0;
  const auto make = [&] {
    ++made;
    return Plan{.num_calls = 7};
  };
  EXPECT_EQ(cache.find_or_make({1, 2}, make), cache.find_or_make({1, 2}, make));
  EXPECT_EQ(made, 1);
  cache.find_or_make({1, 3}, make);
  EXPECT_EQ(made, 2);
}

TEST(PlanCaches, KeepNothingOfAPlanThatCouldNotBeMade) {
  PlanCache cache;
  EXPECT_THROW(cache.find_or_make({1}, []() -> Plan { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(cache.find_or_make({1}, [] { return Plan{.num_calls = 7}; })->num_calls, 7);
}

TEST(PlanCaches, KeepTheLast256Plans) {
  PlanCache cache;
  std::vector<std::weak_ptr<const Plan>> made;
  for (int64_t i = 0; i < 1000; ++i) made.push_back(cache.find_or_make({i}, [] { return Plan(); }));
  EXPECT_EQ(std::ranges::count_if(made, [](const auto& plan) { return !plan.expired(); }), 256);
}

}  // namespace
}  // namespace tutti
