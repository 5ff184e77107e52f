#include "tutti/core/strings.h"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Strings kPairs({"a", "b", "c", "d", "e", "f"}, {3, 2});

TEST(Strings, OneIsAScalar) {
  const Strings one = "naïve";
  EXPECT_THAT(one.shape(), ElementsAre());
  EXPECT_EQ(one.item(), "naïve");
  EXPECT_EQ(Strings().item(), "");
}

TEST(Strings, RowsShareTheText) {
  const Strings row = kPairs.row(1), rows = kPairs.rows(1, 2);
  EXPECT_THAT(row.shape(), ElementsAre(2));
  EXPECT_THAT(row.values(), ElementsAre("c", "d"));
  EXPECT_EQ(row.values().data(), kPairs.values().data() + 2);
  EXPECT_EQ(rows, Strings({"c", "d", "e", "f"}, {2, 2}));
  EXPECT_EQ(rows.row(1)[0], "e");
  EXPECT_EQ(kPairs.rows(3, 0).size(), 0);
}

TEST(Strings, StackAndConcatenate) {
  const std::vector<Strings> rows{kPairs.row(2), kPairs.row(0)};
  EXPECT_EQ(stack(rows), Strings({"e", "f", "a", "b"}, {2, 2}));
  EXPECT_EQ(concatenate(rows), Strings({"e", "f", "a", "b"}));
  const std::vector<Strings> scalars{"x", "y"};
  EXPECT_EQ(stack(scalars), Strings(std::vector<std::string>{"x", "y"}));
}

TEST(Strings, AreEqualByShapeAndText) {
  EXPECT_NE(kPairs, kPairs.reshape({2, 3}));
  EXPECT_EQ(kPairs.reshape({6}).reshape({3, 2}), kPairs);
  EXPECT_NE(kPairs.row(0), kPairs.row(1));
}

TEST(Strings, PrintNestedQuotedAndShort) {
  std::ostringstream stream;
  stream << kPairs.rows(0, 2) << ' ' << Strings("a \"b\"\n");
  EXPECT_EQ(stream.str(), R"([["a", "b"], ["c", "d"]] "a \"b\"\n")");
  EXPECT_EQ(to_string(Strings(std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7"})),
            R"(["0", "1", "2", ..., "5", "6", "7"])");
}

TEST(Strings, RefuseShapesAndRowsThatAreNotThere) {
  EXPECT_THAT(error_of([] { Strings({"a"}, {2}); }), HasSubstr("1 strings do not fill the shape [2]"));
  EXPECT_THAT(error_of([] { Strings({"a"}, {-1}); }), HasSubstr("negative"));
  EXPECT_THAT(error_of([] { Strings({}, {INT64_MAX, 2}); }), HasSubstr("2^63"));
  EXPECT_THAT(error_of([] { kPairs.item(); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([] { kPairs.rows(2, 2); }), HasSubstr("out_of_range"));
  EXPECT_THAT(error_of([] { kPairs.rows(INT64_MAX, INT64_MAX); }), HasSubstr("out_of_range"));
  EXPECT_THAT(error_of([] { Strings("a").rows(0, 0); }), HasSubstr("a scalar has no rows"));
  const std::vector<Strings> unequal{kPairs, kPairs.row(0)};
  EXPECT_THAT(error_of([&] { stack(unequal); }), HasSubstr("[3, 2] and [2]"));
  EXPECT_THAT(error_of([&] { concatenate(unequal); }), HasSubstr("their rows must agree"));
}

}  // namespace
}  // namespace tutti
