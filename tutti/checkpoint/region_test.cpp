#include "tutti/checkpoint/region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace tutti::checkpoint {
namespace {

bool is_grid(std::vector<Region> regions, c10::IntArrayRef sizes) {
  std::vector<const Region*> pointers;
  for (const Region& region : regions) pointers.push_back(&region);
  const bool grid = is_grid_of(pointers, sizes);
  std::ranges::reverse(pointers);
  EXPECT_EQ(is_grid_of(pointers, sizes), grid) << "in another order";
  return grid;
}

TEST(Region, CountsItsElements) {
  EXPECT_EQ((Region{{2, 0}, {3, 4}}).numel(), 12);
  EXPECT_EQ((Region{{2, 0}, {0, 4}}).numel(), 0);
  EXPECT_EQ(Region::whole({}).numel(), 1) << "a scalar";
}

TEST(Region, OverlapsWhereBothHaveElements) {
  const Region box{{2, 2}, {2, 3}};
  EXPECT_TRUE(box.overlaps({{3, 4}, {9, 9}}));
  EXPECT_FALSE(box.overlaps({{4, 2}, {1, 1}})) << "behind the first axis's end";
  EXPECT_FALSE(box.overlaps({{0, 0}, {2, 9}})) << "before its beginning";
  EXPECT_FALSE(box.overlaps({{3, 3}, {0, 1}})) << "nothing, in its middle";
  EXPECT_TRUE(Region::whole({}).overlaps(Region::whole({})));
}

TEST(Region, IsPrintedAsSlicesWithoutOverflow) {
  EXPECT_EQ((Region{{0, 8}, {4, 8}}).to_string(), "[0:4, 8:16]");
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ((Region{{most}, {most}}).to_string(), "[9223372036854775807:18446744073709551614]");
}

TEST(Region, GridsHaveEachCellOnce) {
  EXPECT_TRUE(is_grid({Region::whole({})}, {}));
  EXPECT_TRUE(is_grid({Region::whole({3, 0})}, {3, 0}));
  EXPECT_TRUE(is_grid({{{0, 0}, {1, 2}}, {{0, 2}, {1, 1}}, {{1, 0}, {2, 2}}, {{1, 2}, {2, 1}}}, {3, 3}));
  EXPECT_FALSE(is_grid({}, {3}));
  EXPECT_FALSE(is_grid({Region::whole({3})}, {3, 1})) << "another rank";
  EXPECT_FALSE(is_grid({{{0}, {1}}, {{2}, {1}}}, {3})) << "a hole";
  EXPECT_FALSE(is_grid({{{0}, {2}}, {{1}, {2}}}, {3})) << "an overlap";
  EXPECT_FALSE(is_grid({{{0}, {3}}, {{0}, {3}}}, {3})) << "one twice";
  EXPECT_FALSE(is_grid({{{0}, {2}}}, {3})) << "the end lacks";
  EXPECT_FALSE(is_grid({{{0}, {4}}}, {3})) << "too much";
  EXPECT_FALSE(is_grid({{{1}, {2}}, {{0}, {-1}}}, {3})) << "a length below zero";
  EXPECT_FALSE(is_grid({{{0, 0}, {1, 3}}, {{1, 0}, {1, 2}}, {{1, 2}, {1, 1}}}, {2, 3})) << "bricks, not a grid";
  EXPECT_FALSE(is_grid({{{0}, {1}}, {{1}, {std::numeric_limits<int64_t>::max()}}}, {3})) << "beyond 64 bits";
}

}  // namespace
}  // namespace tutti::checkpoint
