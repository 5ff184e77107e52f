#include <gtest/gtest.h>

#include "tutti/keras/layers/preprocessing/token_table_internal.h"

namespace tutti::keras::layers {
namespace {

TEST(TokenTable, NumbersDistinctTokensInTheOrderInWhichTheyCome) {
  TokenTable table;
  EXPECT_EQ(table.find("a"), TokenTable::kAbsent);
  EXPECT_EQ(table.insert("a"), 0);
  EXPECT_EQ(table.insert(""), 1);
  EXPECT_EQ(table.insert("a"), 0);
  EXPECT_EQ(table.insert("aa"), 2);
  EXPECT_EQ(table.size(), 3);
  EXPECT_EQ(table.find(""), 1);
  EXPECT_EQ(table[0], "a");
  EXPECT_EQ(table[1], "");
  EXPECT_EQ(table[2], "aa");
}

TEST(TokenTable, KeepsItsNumbersAsItGrows) {
  TokenTable table;
  constexpr int64_t kTokens = 100'000;
  for (int64_t i = 0; i < kTokens; ++i) ASSERT_EQ(table.insert(std::to_string(i)), i);
  for (int64_t i = 0; i < kTokens; ++i) {
    ASSERT_EQ(table.find(std::to_string(i)), i);
    ASSERT_EQ(table[i], std::to_string(i));
  }
  EXPECT_EQ(table.find(std::to_string(kTokens)), TokenTable::kAbsent);
}

}  // namespace
}  // namespace tutti::keras::layers
