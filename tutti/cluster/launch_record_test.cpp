#include "tutti/cluster/launch_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::cluster {
namespace {

using testing::HasSubstr;

TEST(LaunchRecord, IsReadAsItWasWritten) {
  const LaunchRecord record{
      .spec = ClusterSpec::of_size("worker", 3), .task = {"worker", 2}, .memory = 5, .control = 6};
  EXPECT_EQ(LaunchRecord::parse(to_string(record)), record);
}

TEST(LaunchRecord, IsRefusedWhereItIsNotWhatTheLauncherWrites) {
  for (const char* text : {"", "{}", R"({"cluster": {"worker": [""]}, "task": {"type": "worker", "index": 1}})",
                           R"({"cluster": {"worker": [""]}, "task": {"index": -1}})",
                           R"({"cluster": {"worker": [""]}, "task": {"index": 0}, "memory": -2})",
                           R"({"cluster": {"worker": [""]}, "task": {"index": 0}, "code": 1})"})
    EXPECT_THAT(error_of([&] { LaunchRecord::parse(text); }), HasSubstr("`tutti launch` tells its processes")) << text;
}

}  // namespace
}  // namespace tutti::cluster
