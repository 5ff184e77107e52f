#include "tutti/tools/checkpoint_command.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <sstream>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint_manager.h"

namespace tutti::tools {
namespace {

using testing::HasSubstr;

// Two checkpoints of one program: a tensor changed, and the step.
struct Saved {
  TemporaryFolder folder;
  Tensor weights = at::ones({2, 3});
  Tensor table = at::arange(4);
  int64_t step = 1;

  Saved() {
    CheckpointManager manager(Checkpoint({{"weights", weights}, {"table", table}, {"step", step}}), folder.path());
    manager.save();
    weights.select(0, 1).add_(0.5);
    step = 2;
    manager.save();
  }

  std::filesystem::path first() const { return folder.path() / "ckpt-1"; }
  std::filesystem::path second() const { return folder.path() / "ckpt-2"; }
};

template <class Command>
std::pair<int, std::string> run(Command command) {
  std::ostringstream out;
  const int status = command(out);
  return {status, out.str()};
}

TEST(CheckpointCommand, ListsAndShows) {
  const Saved saved;
  const auto [status, listed] = run([&](std::ostream& out) { return list_checkpoints(saved.folder.path(), out); });
  EXPECT_EQ(status, 0);
  EXPECT_THAT(listed, testing::AllOf(HasSubstr("ckpt-1: step 1, 3 tensors"), HasSubstr("ckpt-2: step 2, 3 tensors")));
  const auto [shown_status, shown] = run([&](std::ostream& out) { return show_checkpoint(saved.second(), out); });
  EXPECT_EQ(shown_status, 0);
  EXPECT_THAT(shown, testing::AllOf(HasSubstr("weights: Float [2, 3]"), HasSubstr("step = 2")));
}

TEST(CheckpointCommand, SaysWhereThereIsNothing) {
  const TemporaryFolder folder;
  EXPECT_THAT(run([&](std::ostream& out) { return list_checkpoints(folder.path(), out); }).second,
              testing::StartsWith("no checkpoints in "));
  EXPECT_THAT(error_of([&] { list_checkpoints(folder / "nowhere", std::cout); }), testing::StartsWith("not_found"));
}

TEST(CheckpointCommand, DiffNamesWhatDiffers) {
  const Saved saved;
  const auto [status, text] =
      run([&](std::ostream& out) { return diff_checkpoints(saved.first(), saved.second(), out); });
  EXPECT_EQ(status, 1);
  EXPECT_THAT(text, testing::AllOf(HasSubstr("weights: values differ by up to 0.5"), HasSubstr("step: 1 and 2"),
                                   testing::Not(HasSubstr("table"))));
  EXPECT_EQ(run([&](std::ostream& out) { return diff_checkpoints(saved.first(), saved.first(), out); }).first, 0);
}

TEST(CheckpointCommand, VerifyFindsOneFlippedBit) {
  const Saved saved;
  EXPECT_EQ(run([&](std::ostream& out) { return verify_checkpoint(saved.first(), out); }).first, 0);
  for (const auto& entry : std::filesystem::directory_iterator(saved.first())) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const int byte = file.get();
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
  }
  const auto [status, text] = run([&](std::ostream& out) { return verify_checkpoint(saved.first(), out); });
  EXPECT_EQ(status, 1);
  EXPECT_THAT(text, HasSubstr("safetensors"));
}

}  // namespace
}  // namespace tutti::tools
