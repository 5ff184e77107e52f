#include "tutti/collectives/packing.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(GroupBySize, ClosesAPackThatHoldsMoreThanTheLimit) {
  const std::vector<int64_t> bytes{128, 32, 800, 4};
  EXPECT_THAT(group_by_size(bytes, 200), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3)));
  EXPECT_THAT(group_by_size(bytes, 160), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3)));  // 160 is not more
  EXPECT_THAT(group_by_size(bytes, 1), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3)));
}

TEST(GroupBySize, MakesOnePackWithoutALimitAndNoneOfNothing) {
  EXPECT_THAT(group_by_size(std::vector<int64_t>{128, 32, 800, 4}, 0), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(group_by_size({}, 10), IsEmpty());
}

TEST(GroupBySize, RefusesANegativeLimit) {
  EXPECT_THAT(error_of([] { group_by_size({}, -1); }), HasSubstr("invalid_argument: group_by_size: bytes_per_pack"));
}

TEST(PackSizes, AreEqualButForTheLastWhichTakesTheRest) {
  EXPECT_THAT(pack_sizes(10, 3), ElementsAre(3, 3, 4));
  EXPECT_THAT(pack_sizes(9, 3), ElementsAre(3, 3, 3));
  EXPECT_THAT(pack_sizes(7, 1), ElementsAre(7));
}

TEST(PackSizes, LeaveEmptyPacksOut) {
  EXPECT_THAT(pack_sizes(2, 5), ElementsAre(2));
  EXPECT_THAT(pack_sizes(0, 5), IsEmpty());
}

TEST(PackSizes, CoverEveryElement) {
  for (int64_t count = 0; count < 40; ++count)
    for (int packs = 1; packs < 12; ++packs) {
      const auto sizes = pack_sizes(count, packs);
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}), count);
      EXPECT_LE(sizes.size(), static_cast<size_t>(packs));
    }
}

TEST(PackSizes, RefuseNoPacks) {
  EXPECT_THAT(error_of([] { pack_sizes(4, 0); }), HasSubstr("invalid_argument"));
}

}  // namespace
}  // namespace tutti
