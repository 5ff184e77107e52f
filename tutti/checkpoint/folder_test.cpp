#include "tutti/checkpoint/folder.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/hooked_file_system.h"
#include "tests/support/memory_file_system.h"

namespace tutti::checkpoint {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Contents contents_of(int64_t value) {
  Contents contents{.values = {{"value", value}}, .step = value};
  contents.tensors.push_back(named_tensor("w", at::full({3}, value)));
  return contents;
}

class Folders : public testing::Test {
 protected:
  Folder folder(Retention retention = {}) {
    return Folder(files_, "/run/checkpoints", retention, [this] { return now_; });
  }
  // The value that restore_latest finds; -1 for none.
  int64_t restored(const Folder& folder) {
    int64_t value = -1;
    folder.restore_latest([&](const Reader& reader) {
      EXPECT_TRUE(at::equal(reader.read("w"), at::full({3}, reader.step())));
      value = std::get<int64_t>(reader.values().at("value"));
    });
    return value;
  }
  void damage(const std::string& file) { files_.contents("/run/checkpoints/" + file).back() ^= 1; }

  MemoryFileSystem files_;
  std::chrono::system_clock::time_point now_{std::chrono::hours(1'000'000)};
  CollectedWarnings warnings_;
};

TEST_F(Folders, AreEmptyUntilTheFirstSave) {
  Folder empty = folder();
  EXPECT_THAT(empty.numbers(), IsEmpty());
  EXPECT_EQ(empty.latest(), std::nullopt);
  EXPECT_EQ(empty.restore_latest([](const Reader&) { FAIL(); }), std::nullopt);
  EXPECT_EQ(empty.save(contents_of(5)), "/run/checkpoints/ckpt-1");
  EXPECT_EQ(empty.latest(), "/run/checkpoints/ckpt-1");
  EXPECT_EQ(restored(empty), 5);
  EXPECT_THAT(warnings_.lines(), IsEmpty());
}

TEST_F(Folders, CountOnFromTheLargestNumber) {
  folder().save(contents_of(1), 41);
  folder().save(contents_of(2));
  folder().save(contents_of(3));
  EXPECT_THAT(folder().numbers(), ElementsAre(41, 42, 43));
}

TEST_F(Folders, KeepTheNewestOnes) {
  for (int i = 1; i <= 5; ++i) folder({.max_to_keep = 2}).save(contents_of(i));
  EXPECT_THAT(folder().numbers(), ElementsAre(4, 5));
  EXPECT_THAT(files_.list("/run/checkpoints"), ElementsAre(DirectoryEntry{"checkpoint"}, DirectoryEntry{"ckpt-4", true},
                                                           DirectoryEntry{"ckpt-5", true}));
  for (int i = 6; i <= 8; ++i) folder().save(contents_of(i));
  EXPECT_EQ(folder().numbers().size(), 5);
}

TEST_F(Folders, KeepMultiplesAndOneOfEachPeriodForEver) {
  for (int i = 1; i <= 9; ++i) folder({.max_to_keep = 1, .keep_multiples_of = 4}).save(contents_of(i));
  EXPECT_THAT(folder().numbers(), ElementsAre(4, 8, 9));
  for (int i = 10; i <= 20; ++i) {
    now_ += std::chrono::minutes(25);
    folder({.max_to_keep = 1, .keep_every = std::chrono::hours(1)}).save(contents_of(i));
  }
  EXPECT_THAT(folder().numbers(), ElementsAre(4, 8, 12, 15, 18, 20));
}

TEST_F(Folders, OrderCheckpointsByTheirSavingNotByTheirNumbers) {
  folder().save(contents_of(1), 150);
  folder().save(contents_of(2), 101);
  EXPECT_THAT(folder().numbers(), ElementsAre(150, 101));
  EXPECT_EQ(restored(folder()), 2);
}

TEST_F(Folders, ReplaceACheckpointOfTheSameNumber) {
  folder().save(contents_of(1), 7);
  folder().save(contents_of(2), 8);
  folder().save(contents_of(3), 7);
  EXPECT_THAT(folder().numbers(), ElementsAre(8, 7));
  EXPECT_EQ(restored(folder()), 3);
  EXPECT_EQ(files_.list("/run/checkpoints").size(), 3);
}

TEST_F(Folders, FallBackFromDamagedCheckpointsWithOneWarning) {
  for (int i = 1; i <= 3; ++i) folder().save(contents_of(i));
  damage("ckpt-3/tensors-00000.safetensors");
  damage("ckpt-2/index.json");
  EXPECT_EQ(restored(folder()), 1);
  ASSERT_EQ(warnings_.lines().size(), 1);
  EXPECT_THAT(warnings_.lines()[0],
              AllOf(HasSubstr("restored '/run/checkpoints/ckpt-1' in the place of a newer checkpoint"),
                    HasSubstr("ckpt-3/tensors-00000.safetensors', tensor 'w'"), HasSubstr("ckpt-2/index.json"),
                    HasSubstr("stored CRC32C")));
}

TEST_F(Folders, FallBackFromACheckpointThatTheDeviceCannotRead) {
  for (int i = 1; i <= 2; ++i) folder().save(contents_of(i));
  for (const int at : {0, 1, 2}) {  // its index, its header, its data
    int reads = -1;                 // the list comes first
    HookedFileSystem failing(files_, [&](FileOperation operation) {
      if (operation == FileOperation::read && reads++ == at) throw Error(ErrorCode::data_loss, "a bad sector");
    });
    warnings_.clear();
    EXPECT_EQ(restored(Folder(failing, "/run/checkpoints")), 1);
    EXPECT_THAT(warnings_.lines(),
                ElementsAre(AllOf(HasSubstr("restored '/run/checkpoints/ckpt-1' in the place of a newer"),
                                  HasSubstr("a bad sector"))));
    reads = 0;
    EXPECT_EQ(code_of([&] { Reader(failing, "/run/checkpoints/ckpt-2").read("w"); }), ErrorCode::data_loss);
  }
}

TEST_F(Folders, NeverStartAnewWhenAllIsDamaged) {
  folder().save(contents_of(1));
  damage("ckpt-1/index.json");
  EXPECT_THAT(error_of([&] { restored(folder()); }), AllOf(HasSubstr("data_loss"), HasSubstr("ckpt-1/index.json")));
}

TEST_F(Folders, PassOnOtherErrorsOfTheRestore) {
  for (int i = 1; i <= 2; ++i) folder().save(contents_of(i));
  EXPECT_EQ(
      code_of([&] { folder().restore_latest([](const Reader& reader) { reader.read("w", at::full({4}, 0.0)); }); }),
      ErrorCode::invalid_argument);
}

TEST_F(Folders, FindAllWithoutTheListAndWarnOfADamagedOne) {
  for (int i = 1; i <= 3; ++i) folder().save(contents_of(i));
  const std::string list = files_.contents("/run/checkpoints/checkpoint");
  for (size_t i = 0; i < list.size(); ++i) {
    std::string& bytes = files_.contents("/run/checkpoints/checkpoint");
    bytes = list;
    bytes[i] ^= 1;
    EXPECT_EQ(restored(folder()), 3);
    bytes = list.substr(0, i);
    EXPECT_EQ(restored(folder()), 3);
  }
  EXPECT_EQ(warnings_.lines().size(), 2 * list.size());
  EXPECT_THAT(warnings_.lines()[0], HasSubstr("'/run/checkpoints/checkpoint'"));
  folder({.max_to_keep = 1}).save(contents_of(4));
  folder({.max_to_keep = 1}).save(contents_of(5));
  EXPECT_THAT(folder().numbers(), ElementsAre(1, 2, 3, 5)) << "what the list said is not known: nothing is deleted";
  files_.remove("/run/checkpoints/checkpoint");
  EXPECT_EQ(restored(folder()), 5);
}

TEST_F(Folders, IgnoreAndRemoveLeftovers) {
  folder().save(contents_of(1));
  const std::string suffix = temporary_suffix();
  files_.create_directory("/run/checkpoints/ckpt-2" + suffix);
  files_.create("/run/checkpoints/ckpt-2" + suffix + "/tensors-00000.safetensors");
  files_.create("/run/checkpoints/checkpoint" + suffix);
  files_.create_directory("/run/checkpoints/ckpt-03");
  files_.create_directory("/run/checkpoints/logs");
  files_.create("/run/checkpoints/ckpt-9");
  EXPECT_THAT(folder().numbers(), ElementsAre(1));
  folder().save(contents_of(2));
  std::vector<std::string> names;
  for (const auto& entry : files_.list("/run/checkpoints")) names.push_back(entry.name);
  EXPECT_THAT(names, ElementsAre("checkpoint", "ckpt-03", "ckpt-1", "ckpt-2", "ckpt-9", "logs"));
}

TEST_F(Folders, DeleteNothingWhenTheNewOneCannotBeOpened) {
  for (int i = 1; i <= 2; ++i) folder({.max_to_keep = 2}).save(contents_of(i));
  bool written = false;
  HookedFileSystem failing(files_, [&](FileOperation operation) {
    written |= operation == FileOperation::rename;
    if (written && operation == FileOperation::read) throw Error(ErrorCode::unavailable, "a bad sector");
  });
  EXPECT_EQ(code_of([&] { Folder(failing, "/run/checkpoints", {.max_to_keep = 2}).save(contents_of(3)); }),
            ErrorCode::unavailable);
  EXPECT_THAT(folder().numbers(), ElementsAre(1, 2, 3));
}

TEST_F(Folders, RefuseRetentionsThatKeepNothing) {
  for (const Retention& bad : {Retention{.max_to_keep = 0}, Retention{.keep_every = std::chrono::seconds(-1)},
                               Retention{.keep_multiples_of = -1}})
    EXPECT_EQ(code_of([&] { folder(bad); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { folder().save(contents_of(1), -1); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tutti::checkpoint
