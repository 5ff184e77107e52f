#include "tutti/files/new_file.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/files/npy.h"

namespace tutti::files {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

void put(const fs::path& path, const std::string& text) {
  NewFile file(path);
  std::ofstream(file.part(), std::ios::binary) << text;
  file.finish();
}

std::vector<std::string> names_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename().string());
  return names;
}

TEST(NewFile, AppearsWhenItIsWhole) {
  const TemporaryFolder folder;
  {
    NewFile file(folder / "a");
    EXPECT_FALSE(fs::exists(folder / "a"));
    put(folder / "a", "meanwhile");
  }
  EXPECT_THAT(names_in(folder), ElementsAre("a"));
  put(folder / "a", "new");
  EXPECT_EQ(folder.read("a"), "new");
  EXPECT_THAT(error_of([&] { NewFile(folder / "none" / "a"); }), HasSubstr("unavailable: cannot write"));
  EXPECT_THAT(error_of([&] { NewFile(folder.path()); }), HasSubstr("unavailable: cannot write"));
}

TEST(NewFile, IsWrittenWhereLinksLead) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "far");
  put(folder / "far/file", "old");
  fs::create_symlink("far/file", folder / "link");
  fs::create_symlink(folder / "link", folder / "link of link");
  fs::create_symlink("far/missing", folder / "to nothing");
  put(folder / "link of link", "new");
  put(folder / "to nothing", "made");
  EXPECT_TRUE(fs::is_symlink(folder / "link") && fs::is_symlink(folder / "link of link"));
  EXPECT_EQ(folder.read("far/file"), "new");
  EXPECT_EQ(folder.read("far/missing"), "made");
  fs::create_symlink("round", folder / "round");
  EXPECT_THAT(error_of([&] { NewFile(folder / "round"); }), HasSubstr("symbolic links"));
}

TEST(NewFile, LeavesADeviceWhatItIs) {
  const TemporaryFolder folder;
  fs::create_symlink("/dev/full", folder / "full.npy");
  EXPECT_THAT(error_of([&] { write_npy(folder / "full.npy", at::empty({3})); }), HasSubstr("unavailable"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_THAT(names_in(folder), ElementsAre("full.npy"));
}

TEST(NewFile, KeepsThePermissionsOfTheOneBefore) {
  const TemporaryFolder folder;
  put(folder / "secret", "old");
  fs::permissions(folder / "secret", fs::perms::owner_read | fs::perms::owner_write);
  put(folder / "secret", "new");
  EXPECT_EQ(fs::status(folder / "secret").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(NewFile, WritersOfOnePathHaveAPartEach) {
  const TemporaryFolder folder;
  NewFile first(folder / "a"), second(folder / "a");
  EXPECT_NE(first.part(), second.part());
  EXPECT_EQ(names_in(folder).size(), 2);
  second.finish();
  first.finish();
  EXPECT_THAT(names_in(folder), ElementsAre("a"));
}

// As two containers may have, that share a disk: numbers of processes and whatever else is not drawn are alike there.
TEST(NewFile, ProcessesOfOneStateHavePartsOfOtherNames) {
  const TemporaryFolder folder;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const auto tell = [&] {
    const std::string part = NewFile(folder / "a").part().filename().string();
    return ::write(pipe[1], part.data(), part.size()) == static_cast<ssize_t>(part.size());
  };
  for (int i = 0; i < 2; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(tell() ? 0 : 1);
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::string parts(64, ' ');
  parts.resize(static_cast<size_t>(::read(pipe[0], parts.data(), parts.size())));
  EXPECT_NE(parts.substr(0, parts.size() / 2), parts.substr(parts.size() / 2)) << parts;
  for (const int end : pipe) ::close(end);
}

TEST(NewFile, RemovesWhatAKilledWriterLeftAndNothingElse) {
  const TemporaryFolder folder;
  folder.write("a.part", "mine");
  folder.write("a.0123456789abcdef.txt", "mine");
  folder.write("b.0123456789abcdef.part", "another's");
  if (const pid_t child = fork(); child == 0) {
    NewFile file(folder / "a");
    kill(getpid(), SIGKILL);
  } else {
    waitpid(child, nullptr, 0);
  }
  EXPECT_EQ(names_in(folder).size(), 4);
  NewFile under_way(folder / "a");
  put(folder / "a", "text");
  EXPECT_THAT(names_in(folder), UnorderedElementsAre("a", "a.part", "a.0123456789abcdef.txt", "b.0123456789abcdef.part",
                                                     under_way.part().filename().string()));
}

}  // namespace
}  // namespace tutti::files
