#include "tutti/export/python_names.h"

#include <gtest/gtest.h>

namespace tutti::saved_model {
namespace {

TEST(PythonNames, AreIdentifiersAndEachIsGivenOnce) {
  PythonNames names;
  EXPECT_EQ(names.add("x"), "x");
  EXPECT_EQ(names.add("x"), "x_1");
  EXPECT_EQ(names.add("x_1"), "x_1_1");
  EXPECT_EQ(names.add("x"), "x_2");
  EXPECT_EQ(names.add("a name/with: signs"), "a_name_with__signs");
  EXPECT_EQ(names.add("0.weight"), "_0_weight");
  EXPECT_EQ(names.add(""), "_");
  EXPECT_EQ(names.add("\xc3\xa4"), "__");
}

TEST(PythonNames, AreNoWordsOfPython) {
  PythonNames names;
  for (const char* word : {"lambda", "None", "self", "torch", "inf"})
    EXPECT_EQ(names.add(word), std::string(word) + "_1");
}

}  // namespace
}  // namespace tutti::saved_model
