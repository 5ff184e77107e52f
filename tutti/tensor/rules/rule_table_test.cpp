#include "tutti/tensor/rules/rule_table.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

namespace tutti {
namespace {

bool has_size_arguments(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments())
    if (argument.real_type()->str().find("SymInt") != std::string::npos) return true;
  return false;
}

// The overloads of an op that a rule serves: those that write into out= arguments gather.
std::vector<c10::OperatorHandle> served_overloads(const std::string& name) {
  std::vector<c10::OperatorHandle> overloads;
  for (const auto& op : c10::Dispatcher::singleton().getAllOpNames())
    if (op.name == "aten::" + name && op.overload_name.find("out") == std::string::npos)
      if (auto handle = c10::Dispatcher::singleton().findSchema(op)) overloads.push_back(*handle);
  return overloads;
}

TEST(RuleTable, NamesOpsThatExist) {
  for (const auto& [name, entry] : all_rules()) EXPECT_FALSE(served_overloads(name).empty()) << name;
  for (const auto& [name, decomposition] : all_decompositions()) EXPECT_FALSE(served_overloads(name).empty()) << name;
}

TEST(RuleTable, HasARuleForEveryPointwiseOp) {
  int count = 0;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0 || !op->hasTag(at::Tag::pointwise)) continue;
    ++count;
    EXPECT_NE(rule_of(*op), nullptr) << op->operator_name();
    EXPECT_FALSE(has_size_arguments(op->schema())) << op->operator_name();
    if (name.name.back() == '_') continue;
    const auto in_place = c10::Dispatcher::singleton().findSchema({name.name + "_", name.overload_name});
    if (in_place) {
      EXPECT_NE(rule_of(*in_place), nullptr) << in_place->operator_name();
    }
  }
  EXPECT_GT(count, 400);
}

// An op that takes global sizes may not run on shards unless its rule says what they become.
TEST(RuleTable, SaysWhatBecomesOfEverySizeArgument) {
  for (const auto& [name, entry] : all_rules())
    for (const auto& op : served_overloads(name)) {
      const bool says = entry.sizes != SizeArguments::none;
      EXPECT_TRUE(says || !has_size_arguments(op.schema())) << name << '.' << op.schema().overload_name();
    }
}

}  // namespace
}  // namespace tutti
