#include "tutti/distribute/per_replica_slot.h"

#include <gmock/gmock.h>

#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/distribute/mirrored_strategy.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;

class Slot : public testing::Test {
 protected:
  const Watchdog watchdog{std::chrono::seconds(60)};
  MirroredStrategy strategy{{.devices = test_devices(3)}};
};

TEST_F(Slot, HoldsAValueForEachReplicaOverRuns) {
  PerReplicaSlot<int> count;
  for (int step = 0; step < 20; ++step)
    strategy.run([&] { *count += 1 + get_replica_context().replica_id_in_sync_group(); });
  EXPECT_THAT(strategy.run([&] { return *count; }).values(), ElementsAre(20, 40, 60));
  EXPECT_EQ(count.of(2), 60);
}

TEST_F(Slot, HoldsAnotherValueForGlobalView) {
  PerReplicaSlot<std::vector<int>> seen;
  seen->push_back(7);
  strategy.run([&] {
    seen->push_back(get_replica_context().replica_id_in_sync_group());
    get_replica_context().merge_call([&](Strategy&) { EXPECT_THAT(*seen, ElementsAre(7)); });
  });
  EXPECT_THAT(*seen, ElementsAre(7));
  EXPECT_THAT(seen.of(1), ElementsAre(1));
}

TEST_F(Slot, StartsAsADefaultValueInEachReplica) {
  PerReplicaSlot<std::optional<int>> slot;
  EXPECT_THAT(strategy.run([&] { return slot->has_value() ? 1 : 0; }).values(), ElementsAre(0, 0, 0));
  EXPECT_FALSE(slot->has_value());
}

}  // namespace
}  // namespace tutti
