#include "tutti/data/event_file_writer.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(EventFileWriter, NamesItsFileAsTensorFlowDoesAndBeginsItWithItsVersion) {
  const TemporaryFolder folder;
  EventFileWriter one(folder / "run/train"), other(folder / "run/train");
  EXPECT_NE(one.path(), other.path());
  EXPECT_EQ(one.path().parent_path(), folder / "run/train");
  EXPECT_THAT(one.path().filename().string(), MatchesRegex("events\\.out\\.tfevents\\.[0-9]+\\..+\\.[0-9]+\\.0\\.v2"));
  EXPECT_THAT(tfrecord_dataset({one.path()}).begin()->item(), HasSubstr("brain.Event:2"));
}

TEST(EventFileWriter, WritesEventsThatAreSeenOnceTheyAreFlushed) {
  const TemporaryFolder folder;
  EventFileWriter writer(folder.path());
  const Event event{.step = 3, .values = {{"loss", 0.75F}}};
  writer.write(event);
  writer.flush();
  auto records = tfrecord_dataset({writer.path()}).begin();
  EXPECT_EQ((++records)->item(), event.serialize());
}

TEST(EventFileWriter, RefusesAFolderThatIsAFile) {
  const TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_EQ(code_of([&] { EventFileWriter(folder / "file"); }), ErrorCode::unavailable);
}

}  // namespace
}  // namespace tutti::data
