#include "tutti/core/structure.h"

#include <gmock/gmock.h>

#include <array>

namespace tutti::structure {
namespace {

using ::testing::ElementsAre;

struct Point {
  int x, y;
  auto parts() { return std::tie(x, y); }
};

using Nested = std::tuple<int, std::map<std::string, std::vector<int>>, Point, std::array<int, 2>>;

const Nested nested{1, {{"b", {4, 5}}, {"a", {2, 3}}}, {6, 7}, {8, 9}};

TEST(Structure, IsFlattenedDepthFirstWithNamesInOrder) {
  const auto flat = flatten<int>(nested);
  EXPECT_THAT(flat.leaves, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(flat.form, "{ \"a\" \"b\" }[2][2]");
}

TEST(Structure, TakesOtherLeaves) {
  const auto other = with_leaves<int>(nested, {10, 20, 30, 40, 50, 60, 70, 80, 90});
  EXPECT_THAT(flatten<int>(other).leaves, ElementsAre(10, 20, 30, 40, 50, 60, 70, 80, 90));
  EXPECT_THAT(std::get<1>(other).at("b"), ElementsAre(40, 50));
  EXPECT_EQ(std::get<Point>(other).y, 70);
}

struct Plain {
  int number;
  std::map<std::string, int> named;
  std::array<int, 2> two;
  Point point;
};

TEST(Structure, APlainStructNeedsNoDescription) {
  const auto flat = flatten<int>(Plain{1, {{"a", 2}}, {3, 4}, {5, 6}});
  EXPECT_THAT(flat.leaves, ElementsAre(1, 2, 3, 4, 5, 6));
  const auto other = with_leaves<int>(Plain{1, {{"a", 2}}, {3, 4}, {5, 6}}, {10, 20, 30, 40, 50, 60});
  EXPECT_EQ(other.number, 10);
  EXPECT_EQ(other.named.at("a"), 20);
  EXPECT_EQ(other.two[1], 40);
  EXPECT_EQ(other.point.y, 60);
}

TEST(Structure, CountsTheMembersOfPlainStructs) {
  struct One {
    std::string only;
  };
  struct Eight {
    int a, b, c, d, e, f, g, h;
  };
  EXPECT_THAT(flatten<std::string>(One{"x"}).leaves, ElementsAre("x"));
  EXPECT_THAT(flatten<int>(Eight{1, 2, 3, 4, 5, 6, 7, 8}).leaves, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(Structure, FormTellsNamesAndLengthsApart) {
  using Map = std::map<std::string, int>;
  EXPECT_NE(flatten<int>(Map{{"a", 1}}).form, flatten<int>(Map{{"b", 1}}).form);
  EXPECT_NE(flatten<int>(Map{{"a", 1}, {"b", 1}}).form, flatten<int>(Map{{"a b", 1}}).form);
  EXPECT_NE(flatten<int>(std::vector{1, 2}).form, flatten<int>(std::vector{1}).form);
  EXPECT_EQ(flatten<int>(7).form, "");
}

}  // namespace
}  // namespace tutti::structure
