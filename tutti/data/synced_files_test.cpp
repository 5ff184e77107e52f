// Each way to write a file ends with the file and its folder on the disk.
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/synced_files.h"
#include "tests/support/temporary_folder.h"
#include "tutti/data/event_file_writer.h"
#include "tutti/data/tfrecord.h"
#include "tutti/files/new_file.h"

// In the place of the system's.
extern "C" int fsync(int descriptor) {
  if (tutti::synced_files)
    tutti::synced_files->push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)));
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

namespace tutti::data {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SyncedFiles : public ::testing::Test {
 protected:
  SyncedFiles() { synced_files = &seen_; }
  ~SyncedFiles() override { synced_files = nullptr; }
  std::string folder() const { return std::filesystem::canonical(folder_.path()); }

  TemporaryFolder folder_;
  std::vector<std::string> seen_;
};

TEST_F(SyncedFiles, ThoseOfRecordsAreWhenTheyAreClosed) {
  TFRecordWriter writer(folder() + "/records");
  writer.write("one");
  writer.flush();
  EXPECT_THAT(seen_, IsEmpty());
  writer.close();
  EXPECT_THAT(seen_, ElementsAre(folder() + "/records", folder()));
}

TEST_F(SyncedFiles, LieInTheFolderWhereALinkLeads) {
  std::filesystem::create_directory(folder() + "/behind");
  std::filesystem::create_symlink(folder() + "/behind/records", folder() + "/link");
  TFRecordWriter(folder() + "/link").close();
  EXPECT_THAT(seen_, ElementsAre(folder() + "/behind/records", folder() + "/behind"));
}

TEST_F(SyncedFiles, AreNoDevices) {
  TFRecordWriter("/dev/null").close();
  EXPECT_THAT(seen_, IsEmpty());
}

TEST_F(SyncedFiles, OfNewContentAreWhenTheyAreFinished) {
  files::NewFile file(folder() + "/new");
  const std::string part = file.part();
  file.finish();
  EXPECT_THAT(seen_, ElementsAre(part, folder()));
}

}  // namespace
}  // namespace tutti::data
