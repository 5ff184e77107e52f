// What a save replaces and removes on a disk: checkpoints, and nothing of the user's.
#include "tutti/checkpoint/writer.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/hooked_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/folder.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Saves : public testing::Test {
 protected:
  static Contents of(int64_t value) {
    Contents contents{.step = value};
    contents.tensors.push_back(named_tensor("w", at::full({3}, value)));
    return contents;
  }
  void write_to(const fs::path& folder, int64_t value = 1) const { write(posix_file_system(), folder, of(value)); }
  static int64_t step_of(const fs::path& folder) { return Reader(posix_file_system(), folder).step(); }
  // All that is below, links not followed.
  std::vector<std::string> tree() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path()))
      names.push_back(entry.path().lexically_relative(folder_.path()).string());
    std::ranges::sort(names);
    return names;
  }
  // A folder of the user's, and a link to it.
  void make_dataset(const std::string& link) const {
    folder_.write("dataset/train.bin", "data");
    fs::create_directories((folder_ / link).parent_path());
    fs::create_directory_symlink(folder_ / "dataset", folder_ / link);
  }
  void expect_dataset() const { EXPECT_EQ(folder_.read("dataset/train.bin"), "data"); }

  TemporaryFolder folder_;
  CollectedWarnings warnings_;
};

TEST_F(Saves, RefuseToReplaceWhatIsNoCheckpoint) {
  folder_.write("project/src/main.cpp", "int main() {}");
  folder_.write("plain", "text");
  fs::create_directory(folder_ / "empty");
  fs::create_symlink("nowhere", folder_ / "dangling");
  make_dataset("project/data");
  const std::vector<std::string> before = tree();
  for (const std::string name : {"project", "plain", "empty", "dangling", "dataset", "project/data"})
    EXPECT_THAT(error_of([&] { write_to(folder_ / name); }),
                AllOf(HasSubstr("already_exists"), HasSubstr("is no checkpoint"), HasSubstr("move it away")))
        << name;
  EXPECT_EQ(tree(), before);
  expect_dataset();
  EXPECT_THAT(warnings_.lines(), IsEmpty());
}

TEST_F(Saves, RefuseToReplaceACheckpointWithOtherThingsInIt) {
  write_to(folder_ / "c");
  write_to(folder_ / "c", 2);
  EXPECT_EQ(step_of(folder_ / "c"), 2);
  folder_.write("c/notes.txt", "mine");
  EXPECT_THAT(error_of([&] { write_to(folder_ / "c", 3); }),
              AllOf(HasSubstr("already_exists"), HasSubstr("has 'notes.txt' in it")));
  EXPECT_EQ(step_of(folder_ / "c"), 2);
}

TEST_F(Saves, ReplaceALinkAndNotWhatItLeadsTo) {
  write_to(folder_ / "c", 1);
  fs::create_directory_symlink("c", folder_ / "latest");
  write_to(folder_ / "latest", 2);
  EXPECT_EQ(step_of(folder_ / "latest"), 2);
  EXPECT_EQ(step_of(folder_ / "c"), 1);
  EXPECT_FALSE(fs::is_symlink(folder_ / "latest"));
}

TEST_F(Saves, AreTheSameFilesBesideOtherWork) {
  Contents contents;
  for (const int64_t size : {int64_t{3}, int64_t{1} << 18, int64_t{5} << 20})
    contents.tensors.push_back(named_tensor(str("w", size), at::full({size}, size % 251, at::kByte)));
  write(posix_file_system(), folder_ / "plain", contents);
  std::vector<std::pair<size_t, size_t>> written;
  write(posix_file_system(), folder_ / "beside", contents,
        {.beside_work = true, .written = [&](size_t tensor, size_t piece) {
           contents.tensors[tensor].pieces[piece].tensor.reset();  // it is not looked at again
           written.emplace_back(tensor, piece);
         }});
  EXPECT_THAT(written, ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(2, 0)));
  for (const auto& entry : fs::directory_iterator(folder_ / "plain"))
    EXPECT_TRUE(folder_.read("plain/" + entry.path().filename().string()) ==
                folder_.read("beside/" + entry.path().filename().string()))
        << entry.path();
}

TEST_F(Saves, NeedAName) {
  for (const std::string name : {"c/", ".", "..", "c/."})
    EXPECT_THAT(error_of([&] { write_to(folder_ / name); }), HasSubstr("its last part must be a name")) << name;
  EXPECT_THAT(error_of([&] { write_to(""); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(tree(), IsEmpty());
}

TEST_F(Saves, RemoveWhatAKilledOneLeft) {
  if (const pid_t child = fork(); child == 0) {
    HookedFileSystem killing(posix_file_system(), [](FileOperation operation) {
      if (operation == FileOperation::sync) kill(getpid(), SIGKILL);
    });
    write(killing, folder_ / "c", of(1));
  } else {
    waitpid(child, nullptr, 0);
  }
  EXPECT_THAT(tree(), testing::Not(IsEmpty()));
  folder_.write("c.tmp-notours", "mine");
  write_to(folder_ / "c", 2);
  EXPECT_THAT(tree(), ElementsAre("c", "c.tmp-notours", "c/index.json", "c/tensors-00000.safetensors"));
}

TEST_F(Saves, FollowNoLinkWhereTheyRemove) {
  Folder checkpoints(posix_file_system(), folder_ / "ck", {.max_to_keep = 1});
  checkpoints.save(of(1));
  make_dataset("ck/ckpt-1/notes");
  fs::create_directory_symlink(folder_ / "dataset", folder_ / "ck/ckpt-9.tmp-0123456789abcdef");
  checkpoints.save(of(2));
  EXPECT_THAT(tree(), ElementsAre("ck", "ck/checkpoint", "ck/ckpt-2", "ck/ckpt-2/index.json",
                                  "ck/ckpt-2/tensors-00000.safetensors", "dataset", "dataset/train.bin"));
  expect_dataset();
  EXPECT_THAT(warnings_.lines(), IsEmpty());
}

TEST_F(Saves, ExpireALinkToACheckpointAndNotTheCheckpoint) {
  write_to(folder_ / "far", 1);
  fs::create_directory(folder_ / "ck");
  fs::create_directory_symlink(folder_ / "far", folder_ / "ck/ckpt-1");
  Folder checkpoints(posix_file_system(), folder_ / "ck", {.max_to_keep = 1});
  EXPECT_THAT(checkpoints.numbers(), ElementsAre(1));
  checkpoints.save(of(2));
  EXPECT_THAT(checkpoints.numbers(), ElementsAre(2));
  EXPECT_EQ(step_of(folder_ / "far"), 1);
}

TEST_F(Saves, ExpireNoFolderThatIsNoCheckpoint) {
  folder_.write("ck/ckpt-1/thesis.tex", "mine");
  folder_.write("ck/ckpt-x.tmp-0123456789abcdef", "mine");
  Folder checkpoints(posix_file_system(), folder_ / "ck", {.max_to_keep = 1});
  checkpoints.save(of(2));
  EXPECT_EQ(folder_.read("ck/ckpt-1/thesis.tex"), "mine");
  EXPECT_EQ(folder_.read("ck/ckpt-x.tmp-0123456789abcdef"), "mine");
  EXPECT_THAT(warnings_.lines(), ElementsAre(HasSubstr("ckpt-1' is no checkpoint; move it away")));
}

TEST_F(Saves, HaveNumbersWithANextOne) {
  Folder checkpoints(posix_file_system(), folder_ / "ck", {.max_to_keep = 1});
  for (const int64_t number : {INT64_MAX, INT64_MIN, int64_t{-1}})
    EXPECT_EQ(code_of([&] { checkpoints.save(of(1), number); }), ErrorCode::invalid_argument);
  checkpoints.save(of(1), INT64_MAX - 1);
  EXPECT_THAT(error_of([&] { checkpoints.save(of(2)); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("no next one")));
  EXPECT_THAT(checkpoints.numbers(), ElementsAre(INT64_MAX - 1));
  checkpoints.save(of(3), 5);
  EXPECT_THAT(checkpoints.numbers(), ElementsAre(5));
}

}  // namespace
}  // namespace tutti::checkpoint
