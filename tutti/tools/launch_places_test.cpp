#include "tutti/tools/launch_places.h"

#include <gtest/gtest.h>

namespace tutti::tools {
namespace {

using Kind = Verdict::Kind;

TEST(LaunchPlaces, StartAgainWhileThereAreRestartsAndGoOnWhileEnoughAreLeft) {
  LaunchPlaces places(3, /*min_processes=*/2, /*num_restarts=*/1);
  places.note_end(/*has_finished=*/false);
  const Verdict again = places.judge(/*takes_part=*/true);
  EXPECT_EQ(again.kind, Kind::starts_again);
  EXPECT_EQ(again.attempt, 1);
  EXPECT_EQ(again.why, "it is started again, restart 1 of 1, and the others go on");
  places.note_end(false);
  EXPECT_EQ(places.judge(true), (Verdict{.kind = Kind::goes_on, .why = "the other 2 go on"}));
  places.note_end(false);
  EXPECT_EQ(places.judge(true), Verdict{});
  places.note_start(2);  // another host
  EXPECT_EQ(places.judge(true), (Verdict{.kind = Kind::goes_on, .why = "the other 3 go on"}));
}

TEST(LaunchPlaces, CallItNoFailureWhatCameTooLateForTheRun) {
  LaunchPlaces places(3, 1, 5);
  places.note_end(/*has_finished=*/true);
  EXPECT_EQ(places.judge(/*takes_part=*/false), (Verdict{.kind = Kind::goes_on, .why = "the run was over"}));
  EXPECT_EQ(places.judge(/*takes_part=*/true), Verdict{});
  EXPECT_EQ(places.start_again(), Verdict{});
}

}  // namespace
}  // namespace tutti::tools
