#include "tutti/keras/progbar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

namespace tutti::keras {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith, testing::HasSubstr;

// A clock that the test sets.
struct Time {
  std::chrono::steady_clock::time_point now{100s};
  Progbar::Clock clock() {
    return [this] { return now; };
  }
};

class ProgbarTest : public testing::Test {
 protected:
  void SetUp() override { setenv("NO_COLOR", "1", 1); }
  void TearDown() override { unsetenv("NO_COLOR"); }
  ProgbarOptions options(int64_t target, bool terminal) {
    return {.target = target, .out = &out, .terminal = terminal};
  }

  std::ostringstream out;
  Time time;
};

TEST_F(ProgbarTest, WritesOnePlainLineAtTheEndWhereThereIsNoTerminal) {
  Progbar bar(options(4, false), time.clock());
  for (int i = 0; i < 4; ++i) {
    time.now += 1s;
    EXPECT_EQ(out.str(), "");
    bar.add(1, {{"loss", i}});
  }
  EXPECT_EQ(out.str(), "4/4 - 4s - 1s/step - loss: 1.5000\n");
}

TEST_F(ProgbarTest, DrawsTheLineAgainOnATerminal) {
  Progbar bar(options(4, true), time.clock());
  time.now += 10s;  // the first step is slow, and does not count for the time of those that remain
  bar.add(1, {{"loss", 2}});
  EXPECT_EQ(out.str(), "\r1/4 ━━━━━··············· 30s 10s/step - loss: 2.0000");
  time.now += 1s;
  bar.add(1, {{"loss", 1}});
  EXPECT_THAT(out.str(),
              EndsWith("\r2/4 ━━━━━━━━━━·········· 2s 1s/step - loss: 1.5000  "));  // the longer line is gone
  time.now += 2s;
  bar.add(2, {{"loss", 0}});
  EXPECT_THAT(out.str(), EndsWith("\r4/4 ━━━━━━━━━━━━━━━━━━━━ 13s 1s/step - loss: 0.7500\n"));
}

TEST_F(ProgbarTest, DrawsNoMoreOftenThanItsInterval) {
  Progbar bar(options(100, true), time.clock());
  bar.add(1);
  const std::string first = out.str();
  time.now += 10ms;
  bar.add(1);
  EXPECT_EQ(out.str(), first);
  time.now += 50ms;
  bar.add(1);
  EXPECT_NE(out.str(), first);
}

TEST_F(ProgbarTest, ShowsStatefulMetricsAsTheyCameLast) {
  Progbar bar({.target = 2, .stateful_metrics = {"epoch"}, .out = &out, .terminal = false}, time.clock());
  bar.add(1, {{"epoch", 3}});
  bar.add(1, {{"epoch", 4}});
  EXPECT_THAT(out.str(), HasSubstr("epoch: 4.0000"));
}

TEST_F(ProgbarTest, ShowsHoursAndMinutesThatRemain) {
  Progbar bar(options(10, true), time.clock());
  time.now += 10s;
  bar.add(1);
  EXPECT_THAT(out.str(), HasSubstr(" 1:30 10s/step"));
  time.now += 1000s;
  bar.add(1);
  EXPECT_THAT(out.str(), HasSubstr(" 2:13:20 1000s/step"));
}

TEST_F(ProgbarTest, EndsALoopWithoutATargetWhenItGoes) {
  {
    Progbar bar(options(-2, true), time.clock());
    time.now += 2s;
    bar.add(1);
    EXPECT_EQ(out.str(), "\r      1/Unknown 2s 2s/step");
  }
  EXPECT_THAT(out.str(), EndsWith("\r      1/Unknown 2s 2s/step\n"));
}

TEST_F(ProgbarTest, UsesColoursUnlessTheEnvironmentForbidsThem) {
  unsetenv("NO_COLOR");
  Progbar bar(options(2, true), time.clock());
  time.now += 1s;
  bar.add(1);
  EXPECT_EQ(out.str(),
            "\r\x1b[1m1/2\x1b[0m \x1b[32m━━━━━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━\x1b[0m \x1b[1m1s\x1b[0m 1s/step");
}

}  // namespace
}  // namespace tutti::keras
