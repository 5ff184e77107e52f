#include "tutti/checkpoint/box_copy.h"

#include <gmock/gmock.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

namespace tutti::checkpoint {
namespace {

// The shard's bytes, numbered, copied in pieces of `piece` bytes into zeros; at once it is the same.
std::vector<int> copied(const BoxCopy& copy, size_t shard_bytes, size_t destination_bytes, size_t piece) {
  std::vector<std::byte> shard(shard_bytes), destination(destination_bytes);
  for (size_t i = 0; i < shard.size(); ++i) shard[i] = static_cast<std::byte>(i + 1);
  for (size_t begin = 0; begin < shard.size(); begin += piece)
    copy.scatter(begin, std::span(shard).subspan(begin, std::min(piece, shard.size() - begin)), destination.data());
  std::vector<std::byte> at_once(destination_bytes);
  copy.scatter_whole(shard.data(), at_once.data());
  EXPECT_EQ(at_once, destination);
  std::vector<int> values;
  for (const std::byte byte : destination) values.push_back(static_cast<int>(byte));
  return values;
}

TEST(BoxCopy, CutsColumnsOutOfRows) {
  const BoxCopy copy({{0, 0}, {2, 4}}, {{0, 1}, {3, 2}}, {2, 1}, 1);
  EXPECT_EQ(copy.num_runs(), 2);
  EXPECT_EQ(copy.run_bytes(), 2);
  for (const size_t piece : {1, 2, 3, 5, 8})
    EXPECT_THAT(copied(copy, 8, 6, piece), testing::ElementsAre(2, 3, 6, 7, 0, 0)) << "in pieces of " << piece;
}

TEST(BoxCopy, IsOneRunWhereAllIsContiguous) {
  EXPECT_EQ(BoxCopy(Region::whole({3, 4}), Region::whole({3, 4}), {4, 1}, 8).run_bytes(), 96);
  EXPECT_EQ(BoxCopy({{1, 0}, {2, 4}}, Region::whole({3, 4}), {4, 1}, 1).num_runs(), 1) << "whole rows";
  EXPECT_EQ(BoxCopy({{0, 2}, {3, 1}}, {{1, 0}, {1, 4}}, {4, 1}, 1).num_runs(), 1) << "a single element";
  const BoxCopy scalar(Region::whole({}), Region::whole({}), {}, 4);
  EXPECT_EQ(scalar.num_runs(), 1);
  EXPECT_EQ(scalar.run_bytes(), 4);
}

TEST(BoxCopy, WritesRowsThatLieApart) {
  const BoxCopy copy(Region::whole({2, 2}), Region::whole({2, 2}), {3, 1}, 1);
  EXPECT_EQ(copy.num_runs(), 2);
  EXPECT_THAT(copied(copy, 4, 5, 4), testing::ElementsAre(1, 2, 0, 3, 4));
}

TEST(BoxCopy, CountsRunsByAllAxesThatAreCut) {
  const BoxCopy copy({{0, 0, 0}, {2, 2, 4}}, {{0, 1, 2}, {2, 1, 2}}, {2, 2, 1}, 1);
  EXPECT_THAT(copied(copy, 16, 4, 16), testing::ElementsAre(7, 8, 15, 16));
  const BoxCopy planes({{0, 0, 0}, {2, 2, 3}}, {{0, 0, 1}, {2, 2, 1}}, {2, 1, 1}, 1);
  EXPECT_THAT(copied(planes, 12, 4, 7), testing::ElementsAre(2, 5, 8, 11));
}

TEST(BoxCopy, CopiesRowsOfAnyLength) {
  for (const int64_t length : {1, 15, 16, 17, 31, 32, 33, 80, 255, 256, 257, 1000}) {
    const BoxCopy copy(Region::whole({2, length + 1}), {{0, 1}, {2, length}}, {length, 1}, 1);
    EXPECT_EQ(copy.run_bytes(), length);
    std::vector<int> expected;
    for (const int64_t row : {0, 1})
      for (int64_t i = 1; i <= length; ++i) expected.push_back(static_cast<int>((row * (length + 1) + i + 1) % 256));
    const auto columns = static_cast<size_t>(length);
    EXPECT_EQ(copied(copy, 2 * columns + 2, 2 * columns, 2 * columns + 2), expected) << "in rows of " << length;
  }
}

TEST(BoxCopy, TellsWhereAShardOfOneRunGoes) {
  const BoxCopy rows({{1, 0}, {2, 4}}, Region::whole({3, 4}), {4, 1}, 1);
  EXPECT_EQ(rows.place_of_whole(8), 4);
  EXPECT_EQ(rows.place_of_whole(12), std::nullopt) << "a part of the shard";
  EXPECT_EQ(BoxCopy(Region::whole({2, 2}), Region::whole({2, 2}), {3, 1}, 1).place_of_whole(4), std::nullopt);
}

TEST(BoxCopy, IsEmptyWhereTheBoxesDoNotMeet) {
  for (const Region& apart : {Region{{2, 0}, {1, 4}}, Region{{0, 4}, {2, 2}}, Region{{0, 0}, {2, 0}}}) {
    const BoxCopy copy({{0, 0}, {2, 4}}, apart, {4, 1}, 1);
    EXPECT_EQ(copy.num_runs(), 0) << apart.to_string();
    EXPECT_FALSE(copy.touches(0, 8));
  }
}

TEST(BoxCopy, TellsWhichBytesItNeeds) {
  const BoxCopy copy({{0, 0}, {2, 8}}, {{0, 2}, {2, 3}}, {3, 1}, 1);  // bytes 2 to 5 and 10 to 13
  EXPECT_FALSE(copy.touches(0, 2));
  EXPECT_TRUE(copy.touches(0, 3));
  EXPECT_TRUE(copy.touches(4, 5));
  EXPECT_FALSE(copy.touches(5, 10));
  EXPECT_FALSE(copy.touches(13, 16));
  EXPECT_EQ(copy.first_run_behind(4), 0);
  EXPECT_EQ(copy.first_run_behind(5), 1);
  EXPECT_EQ(copy.first_run_behind(13), 2);
  std::vector<std::array<uint64_t, 3>> parts;
  copy.for_each_part(3, 12, [&](uint64_t from, uint64_t to, uint64_t bytes) { parts.push_back({from, to, bytes}); });
  EXPECT_THAT(parts, testing::ElementsAre(std::array<uint64_t, 3>{3, 1, 2}, std::array<uint64_t, 3>{10, 3, 2}));
}

}  // namespace
}  // namespace tutti::checkpoint
