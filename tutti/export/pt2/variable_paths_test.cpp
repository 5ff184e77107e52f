#include "tutti/export/pt2/variable_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::saved_model::pt2 {
namespace {

using testing::ElementsAre;

TEST(VariablePaths, KeepTheNamesOfModulesAndOfLayers) {
  EXPECT_THAT(variable_paths({"layer1.0.weight", "sequential/dense/kernel", "constant_0"}),
              ElementsAre("layer1.0.weight", "sequential.dense.kernel", "constant_0"));
}

TEST(VariablePaths, AreNoAttributesThatModulesHave) {
  EXPECT_THAT(variable_paths({"forward", "net.type.weight", "_parameters", "a name", "", "a..b"}),
              ElementsAre("forward_", "net.type_.weight", "v_parameters", "a_name", "v", "a.v.b"));
}

TEST(VariablePaths, AreNoModuleAndVariableAtOnce) {
  EXPECT_THAT(variable_paths({"a", "a.b", "a/b"}), ElementsAre("a", "a_b_1", "a_b_2"));
  EXPECT_THAT(variable_paths({"a.b", "a", "a/b"}), ElementsAre("a.b", "a_1", "a_b_1"));
}

}  // namespace
}  // namespace tutti::saved_model::pt2
