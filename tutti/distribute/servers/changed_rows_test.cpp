#include "tutti/distribute/servers/changed_rows.h"

#include <gmock/gmock.h>

#include <numeric>

namespace tutti::servers {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr int64_t kTracked = 200;

TEST(ChangedRows, AreThoseSinceTheVersionThatWasToldLast) {
  ChangedRows rows;
  rows.note(std::vector<int64_t>{1, 2});
  EXPECT_EQ(rows.since(0), std::nullopt);
  EXPECT_EQ(rows.since(1), std::nullopt) << "nothing was told";
  rows.tell(3, kTracked);
  EXPECT_THAT(rows.since(3), Optional(IsEmpty()));
  rows.note(std::vector<int64_t>{199, 0});
  rows.note(std::vector<int64_t>{63, 64, 0});
  EXPECT_THAT(rows.since(3), Optional(ElementsAre(0, 63, 64, 199)));
  EXPECT_EQ(rows.since(2), std::nullopt) << "who knows that was not told of version 3";
  rows.tell(7, kTracked);
  EXPECT_THAT(rows.since(7), Optional(IsEmpty()));
  EXPECT_EQ(rows.since(3), std::nullopt);
}

TEST(ChangedRows, MayBeAllUntilTheNextVersionIsTold) {
  ChangedRows rows;
  rows.tell(3, kTracked);
  rows.note_all();
  rows.note(std::vector<int64_t>{5});
  EXPECT_EQ(rows.since(3), std::nullopt);
  rows.tell(5, kTracked);
  rows.note(std::vector<int64_t>{6});
  EXPECT_THAT(rows.since(5), Optional(ElementsAre(6)));
}

TEST(ChangedRows, AreNotListedWhereTheyAreMost) {
  ChangedRows rows;
  rows.tell(1, kTracked);
  std::vector<int64_t> half(kTracked / 2);
  std::iota(half.begin(), half.end(), 0);
  rows.note(half);
  EXPECT_THAT(rows.since(1), Optional(half));
  rows.note(std::vector<int64_t>{kTracked - 1});
  EXPECT_EQ(rows.since(1), std::nullopt);
}

}  // namespace
}  // namespace tutti::servers
