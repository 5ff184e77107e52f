#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <vector>

#include "tests/support/error_of.h"
#include "tutti/checkpoint/file_system.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class PosixFiles : public testing::Test {
 protected:
  PosixFiles() : directory_(fs::path(testing::TempDir()) / str("tutti_files_", getpid())) {
    fs::remove_all(directory_);
    create_directories(files_, directory_ / "a" / "b/");
  }
  ~PosixFiles() override { fs::remove_all(directory_); }

  void put(const fs::path& file, const std::string& text) {
    replace_file(files_, file, [&](WritableFile& out) { out.write(std::as_bytes(std::span(text))); });
  }

  FileSystem& files_ = posix_file_system();
  fs::path directory_;
};

TEST_F(PosixFiles, AreWrittenReplacedListedAndRemoved) {
  const fs::path file = directory_ / "file";
  put(file, "one");
  put(file, "another");
  EXPECT_EQ(read_text(files_, file, 7), "another");
  EXPECT_EQ(code_of([&] { read_text(files_, file, 6); }), ErrorCode::data_loss);
  EXPECT_THAT(files_.list(directory_), ElementsAre(DirectoryEntry{"a", true}, DirectoryEntry{"file", false}));
  EXPECT_TRUE(files_.exists(file));
  files_.remove(file);
  EXPECT_FALSE(files_.exists(file));
  remove_tree(files_, directory_);
  EXPECT_FALSE(fs::exists(directory_));
}

TEST_F(PosixFiles, AreReadAtAnyPlaceButNotBeyondTheirEnd) {
  put(directory_ / "file", "0123456789");
  const auto file = files_.open(directory_ / "file");
  EXPECT_EQ(file->size(), 10);
  std::string text(4, ' ');
  file->read(6, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "6789");
  EXPECT_THAT(error_of([&] { file->read(7, std::as_writable_bytes(std::span(text))); }),
              AllOf(HasSubstr("data_loss"), HasSubstr("ends at byte 10")));
}

// Blocks go to the device, the rest through the cache: wherever a file ends, in whatever pieces it comes.
TEST_F(PosixFiles, AreWrittenPastTheCacheByteForByte) {
  constexpr size_t kBuffer = 2 << 20;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, kBuffer - 1, kBuffer, kBuffer + 4097, 3 * kBuffer}) {
    std::string text(size, ' ');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i * i % 23);
    const fs::path path = directory_ / "file";
    {
      const auto file = files_.create_uncached(path);
      const auto bytes = std::as_bytes(std::span(text));
      for (size_t at = 0, piece = 1; at < size; at += piece, piece = piece * 5 + 3)
        file->write(bytes.subspan(at, std::min(piece, size - at)));
      file->sync();
    }
    EXPECT_EQ(fs::file_size(path), size);
    EXPECT_TRUE(read_text(files_, path, size) == text) << size;
    files_.remove(path);
  }
}

TEST_F(PosixFiles, AreReadIntoSeveralPlaces) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += str(i, ' ');
  put(directory_ / "file", text);
  const auto file = files_.open(directory_ / "file");
  std::string got(text.size() - 5, '?');
  std::vector<std::span<std::byte>> parts;  // more than one system call takes
  const auto bytes = std::as_writable_bytes(std::span(got));
  for (size_t at = 0, size = 0; at < bytes.size(); at += parts.back().size(), size = (size + 1) % 7)
    parts.push_back(bytes.subspan(at, std::min(size, bytes.size() - at)));
  file->read_parts(5, parts);
  EXPECT_EQ(got, text.substr(5));
  EXPECT_EQ(code_of([&] { file->read_parts(6, parts); }), ErrorCode::data_loss) << "it ends one byte before";
}

// Memory that does not exist: the kernel answers as a device does that lost a sector.
TEST_F(PosixFiles, WhichTheDeviceCannotReadAreLost) {
  const auto file = files_.open("/proc/self/mem");
  std::string text(4, ' ');
  EXPECT_THAT(error_of([&] { file->read(0, std::as_writable_bytes(std::span(text))); }),
              AllOf(HasSubstr("data_loss"), HasSubstr("cannot read '/proc/self/mem' at byte 0")));
}

TEST_F(PosixFiles, AreExchangedInOneStep) {
  files_.create_directory(directory_ / "c");
  put(directory_ / "c" / "file", "c");
  files_.exchange(directory_ / "a", directory_ / "c");
  EXPECT_TRUE(fs::exists(directory_ / "a" / "file"));
  EXPECT_TRUE(fs::exists(directory_ / "c" / "b"));
}

TEST_F(PosixFiles, AreReplacedWhereLinksLeadAndNeverByDeviceOrFolder) {
  put(directory_ / "a" / "file", "old");
  fs::create_symlink("a/file", directory_ / "link");
  put(directory_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
  EXPECT_EQ(read_text(files_, directory_ / "a" / "file", 3), "new");
  EXPECT_EQ(code_of([&] { put(directory_ / "a", "text"); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { put("/dev/null", "text"); }), ErrorCode::invalid_argument);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(PosixFiles, OfKilledWritersAreRemovedByTheNext) {
  const fs::path abandoned = fs::path(directory_ / "file") += temporary_suffix();
  const fs::path being_written = fs::path(directory_ / "file") += temporary_suffix();
  const fs::path of_another = fs::path(directory_ / "other") += temporary_suffix();
  files_.create(abandoned);
  files_.create(of_another);
  const auto open = files_.create(being_written);
  put(directory_ / "file", "text");
  EXPECT_FALSE(fs::exists(abandoned));
  EXPECT_TRUE(fs::exists(being_written));
  EXPECT_TRUE(fs::exists(of_another));
}

TEST_F(PosixFiles, SayWhyTheyFail) {
  const fs::path file = directory_ / "file";
  put(file, "text");
  EXPECT_EQ(code_of([&] { files_.create(file); }), ErrorCode::already_exists);
  EXPECT_EQ(code_of([&] { files_.create_directory(directory_ / "a"); }), ErrorCode::already_exists);
  EXPECT_EQ(code_of([&] { files_.rename(directory_ / "a", file); }), ErrorCode::unavailable);
  EXPECT_EQ(code_of([&] { files_.remove(directory_ / "a"); }), ErrorCode::already_exists);
  EXPECT_EQ(code_of([&] { files_.open(directory_ / "a"); }), ErrorCode::unavailable);
  EXPECT_EQ(code_of([&] { files_.list(directory_ / "none"); }), ErrorCode::not_found);
  EXPECT_EQ(code_of([&] { files_.create(directory_ / "none" / "file"); }), ErrorCode::not_found);
  EXPECT_THAT(error_of([&] { files_.open(directory_ / "none"); }),
              AllOf(HasSubstr("not_found: can't open '"), HasSubstr("none': No such file or directory")));
  EXPECT_GT(files_.available_bytes(directory_), 0);
}

TEST_F(PosixFiles, SayThatAFileMayNotGrow) {
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 4096;
  const auto old = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] { put(directory_ / "file", std::string(10'000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old);
  EXPECT_THAT(error, AllOf(HasSubstr("resource_exhausted: can't write to '"), HasSubstr("File too large")));
  EXPECT_THAT(files_.list(directory_), ElementsAre(DirectoryEntry{"a", true})) << "what could not be finished is gone";
}

TEST(TemporaryNames, AreKnownByTheirEnd) {
  const std::string suffix = temporary_suffix();
  EXPECT_NE(suffix, temporary_suffix());
  EXPECT_TRUE(is_temporary("ckpt-7" + suffix));
  EXPECT_FALSE(is_temporary("ckpt-7"));
  EXPECT_FALSE(is_temporary("ckpt-7" + suffix + "x"));
  EXPECT_FALSE(is_temporary("ckpt-7.tmp-0123456789abcdeg"));
  EXPECT_EQ(directory_of("name"), ".");
  EXPECT_EQ(directory_of("/a/b"), "/a");
}

}  // namespace
}  // namespace tutti::checkpoint
