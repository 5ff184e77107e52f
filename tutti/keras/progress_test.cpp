#include "tutti/keras/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

namespace tutti::keras {
namespace {

using namespace std::chrono_literals;

TEST(Progress, WritesKerassLine) {
  EXPECT_EQ(progress_line(469, 3s, {{"loss", 0.30124}, {"accuracy", 0.91}, {"val_loss", 0.0988}}),
            "469/469 - 3s - 6ms/step - accuracy: 0.9100 - loss: 0.3012 - val_loss: 0.0988");
}

TEST(Progress, ChoosesTheUnitOfTime) {
  EXPECT_EQ(progress_line(2, 4s, {}), "2/2 - 4s - 2s/step");
  EXPECT_EQ(progress_line(1000, 50ms, {}), "1000/1000 - 0s - 50us/step");
}

TEST(Progress, WritesSmallNumbersWithAnExponent) {
  EXPECT_EQ(progress_line(1, 1s, {{"loss", 0.00012345}, {"score", -0.5}}),
            "1/1 - 1s - 1s/step - loss: 1.2345e-04 - score: -0.5000");
}

TEST(Progress, WritesNoSignBeforeWhatIsNoNumber) {
  EXPECT_EQ(progress_line(1, 1s, {{"loss", -std::numeric_limits<double>::quiet_NaN()}}),
            "1/1 - 1s - 1s/step - loss: nan");
}

TEST(Progress, NumbersEpochsOnlyIfThereAreSeveral) {
  std::ostringstream out;
  Progress progress(out, Verbose::automatic);
  progress.begin_epoch(0, 1, 10);
  EXPECT_EQ(out.str(), "");
  progress.begin_epoch(1, 3, 10);
  EXPECT_EQ(out.str(), "Epoch 2/3\n");
  Progress(out, Verbose::silent).end_epoch(1, {{"loss", 1}});
  EXPECT_EQ(out.str(), "Epoch 2/3\n");
}

TEST(Progress, EndsItsBarWhenTheEpochDoes) {
  std::ostringstream out;
  Progress progress(out, Verbose::progress_bar);
  progress.begin_epoch(0, 2, 4);
  progress.end_epoch(3, {{"loss", 1}, {"val_loss", 2}});  // one step fewer than was expected
  EXPECT_THAT(out.str(), AllOf(testing::HasSubstr("3/3"), testing::EndsWith(" - loss: 1.0000 - val_loss: 2.0000\n")));
}

}  // namespace
}  // namespace tutti::keras
