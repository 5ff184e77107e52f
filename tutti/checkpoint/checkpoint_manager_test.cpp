#include "tutti/checkpoint/checkpoint_manager.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/hooked_file_system.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/reader.h"
#include "tutti/core/release_queue.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(CheckpointManager, KeepsTheNewest) {
  for (const bool async : {false, true}) {
    const TemporaryFolder folder;
    int64_t step = 0;
    CheckpointManager manager(Checkpoint({{"step", step}}), folder.path(), {.max_to_keep = 2, .async = async});
    EXPECT_EQ(manager.latest_checkpoint(), std::nullopt);
    for (step = 1; step <= 3; ++step) manager.save();
    EXPECT_THAT(manager.checkpoints(), ElementsAre(folder.path() / "ckpt-2", folder.path() / "ckpt-3"));
    EXPECT_EQ(manager.latest_checkpoint(), folder.path() / "ckpt-3");
    step = 0;
    EXPECT_EQ(manager.restore_or_initialize(), folder.path() / "ckpt-3");
    EXPECT_EQ(step, 3);
  }
}

TEST(CheckpointManager, AnEmptyDirectoryLeavesEverythingAsItIs) {
  const TemporaryFolder folder;
  int64_t step = 5;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path() / "not" / "there");
  EXPECT_EQ(manager.restore_or_initialize(), std::nullopt);
  EXPECT_EQ(step, 5);
}

TEST(CheckpointManager, NumbersCanBeGiven) {
  for (const bool async : {false, true}) {
    const TemporaryFolder folder;
    int64_t step = 40;
    {
      CheckpointManager manager(Checkpoint({{"step", step}}), folder.path(), {.async = async});
      EXPECT_EQ(manager.save(step), folder.path() / "ckpt-40");
      EXPECT_EQ(manager.save(7), folder.path() / "ckpt-7");
      EXPECT_EQ(manager.save(), folder.path() / "ckpt-41");
      EXPECT_EQ(code_of([&] { manager.save(INT64_MAX); }), ErrorCode::invalid_argument);
      manager.wait();
    }
    CheckpointManager later(Checkpoint({{"step", step}}), folder.path(), {.async = async});
    EXPECT_EQ(later.save(), folder.path() / "ckpt-42");
  }
}

TEST(CheckpointManager, HasItsDirectoryToItselfFromTheFirstSaveOn) {
  for (const bool async : {false, true}) {
    const TemporaryFolder folder;
    int64_t step = 1;
    const Checkpoint checkpoint({{"step", step}});
    CheckpointManager other(checkpoint, folder.path());
    {
      CheckpointManager manager(checkpoint, folder.path(), {.async = async});
      manager.save();
      EXPECT_THAT(error_of([&] { other.save(); }),
                  AllOf(HasSubstr("failed_precondition"), HasSubstr("saved to by another manager")));
      manager.wait();
      EXPECT_EQ(other.restore_or_initialize(), folder.path() / "ckpt-1") << "who reads needs no lock";
      manager.save();
    }
    EXPECT_EQ(other.save(), folder.path() / "ckpt-3");
  }
}

TEST(CheckpointManager, ARelativeDirectoryStaysWhereItWas) {
  const TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::current_path(folder.path());
  int64_t step = 1;
  CheckpointManager manager(Checkpoint({{"step", step}}), "ck", {.async = true});
  std::filesystem::current_path(folder / "elsewhere");
  EXPECT_EQ(manager.save(), folder.path() / "ck/ckpt-1");
  manager.save();
  manager.wait();
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(folder / "ck/ckpt-2/index.json"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "elsewhere"));
  EXPECT_EQ(code_of([&] { CheckpointManager(Checkpoint({{"step", step}}), ""); }), ErrorCode::invalid_argument);
}

TEST(CheckpointManager, AnAsynchronousSaveHasTheValuesOfItsCall) {
  const TemporaryFolder folder;
  const Tensor weights = at::zeros({1 << 16});
  int64_t step = 0;
  const Checkpoint checkpoint({{"weights", weights}, {"step", step}});
  CheckpointManager manager(checkpoint, folder.path(), {.max_to_keep = std::nullopt, .async = true});
  std::vector<std::filesystem::path> folders;
  for (step = 1; step <= 5; ++step) {
    weights.fill_(static_cast<double>(step));
    folders.push_back(manager.save());
    weights.fill_(-1);  // at once, beside the thread that writes
  }
  manager.wait();
  for (int64_t saved = 1; saved <= 5; ++saved) {
    checkpoint.restore(folders[static_cast<size_t>(saved - 1)]).assert_consumed();
    EXPECT_EQ(step, saved);
    EXPECT_TRUE(weights.equal(at::full({1 << 16}, saved, at::kFloat)));
  }
}

TEST(CheckpointManager, AnErrorInTheBackgroundSurfacesAtTheNextSave) {
  const TemporaryFolder folder;
  int64_t step = 0;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path() / "file" / "below", {.async = true});
  std::ofstream(folder.path() / "file") << "in the way";
  EXPECT_THAT(error_of([&] {
                manager.save();
                manager.save();
              }),
              HasSubstr("file"));
}

TEST(CheckpointManager, AnErrorInTheBackgroundLosesOneSaveOnly) {
  const TemporaryFolder folder;
  int failing = 0;
  HookedFileSystem files(checkpoint::posix_file_system(), [&](FileOperation operation) {
    if (operation == FileOperation::sync && failing > 0 && failing-- > 0)
      throw Error(ErrorCode::resource_exhausted, "the disk is full");
  });
  int64_t step = 1;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path(), {.async = true, .files = &files});
  failing = 1;
  manager.save();
  EXPECT_THAT(error_of([&] { manager.save(); }), HasSubstr("the disk is full"));
  manager.wait();
  EXPECT_THAT(manager.checkpoints(), ElementsAre(folder.path() / "ckpt-2"));
}

TEST(CheckpointManager, CopiesLeavePointersAsTheyAre) {
  const TemporaryFolder folder;
  const Tensor weights = at::zeros({1 << 16});
  float* const pointer = weights.mutable_data_ptr<float>();
  const Checkpoint checkpoint({{"weights", weights}});
  CheckpointManager manager(checkpoint, folder.path(), {.async = true, .snapshot = Snapshot::copies});
  manager.save();
  std::fill_n(pointer, weights.numel(), 1.0F);
  weights.add_(1);
  EXPECT_EQ(weights.const_data_ptr<float>(), pointer);
  manager.wait();
  EXPECT_EQ(*pointer, 2);
  checkpoint.restore(folder.path() / "ckpt-1").assert_consumed();
  EXPECT_TRUE(weights.equal(at::zeros({1 << 16})));
}

// Memory that tells how many blocks of it are alive.
class Counting final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    ++alive;
    void* memory = std::malloc(bytes);
    return {memory, memory, &release, at::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  static inline std::atomic<int> alive = 0;

 private:
  static void release(void* memory) {
    --alive;
    std::free(memory);
  }
};

// The memory that the save has shared is given back while training goes on, not at the next save.
TEST(CheckpointManager, ATensorMayBeResizedWhileItIsSaved) {
  const TemporaryFolder folder;
  std::promise<void> resized;
  const std::shared_future<void> until = resized.get_future().share();
  HookedFileSystem slow(checkpoint::posix_file_system(), [&](FileOperation operation) {
    if (operation == FileOperation::write) until.wait();
  });
  const Tensor weights = at::ones({1 << 10});
  CheckpointManager manager(Checkpoint({{"weights", weights}}), folder.path(), {.async = true, .files = &slow});
  const auto path = manager.save();
  weights.resize_({1 << 12}).zero_();
  resized.set_value();
  manager.wait();
  const checkpoint::Reader reader(checkpoint::posix_file_system(), path);
  EXPECT_TRUE(reader.read("weights").equal(at::ones({1 << 10})));
}

TEST(CheckpointManager, ASnapshotIsReleasedWhenItIsWritten) {
  const TemporaryFolder folder;
  static Counting allocator;
  constexpr int64_t kSize = 1 << 16;
  const c10::Storage storage(c10::Storage::use_byte_size_t(), kSize * sizeof(float), &allocator, /*resizable=*/false);
  const Tensor weights = at::empty({0}).set_(storage, 0, {kSize}, {1});
  weights.zero_();
  CheckpointManager manager(Checkpoint({{"weights", weights}}), folder.path(), {.async = true});
  manager.save();
  EXPECT_EQ(Counting::alive, 1);
  weights.fill_(1);  // now the old values are the save's alone
  for (int i = 0; i < 10'000 && Counting::alive > 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ReleaseQueue::of_this_thread()->release();  // as an iterator does for each element
  }
  EXPECT_EQ(Counting::alive, 1);
  EXPECT_EQ(manager.checkpoints().size(), 1);
}

TEST(CheckpointManager, ATensorIsReleasedWhenItIsInTheFileNotWhenTheSaveHasEnded) {
  const TemporaryFolder folder;
  static Counting allocator;
  constexpr int64_t kSize = 1 << 16;
  const c10::Storage storage(c10::Storage::use_byte_size_t(), kSize * sizeof(float), &allocator, /*resizable=*/false);
  const Tensor weights = at::empty({0}).set_(storage, 0, {kSize}, {1});
  weights.zero_();
  const int before = Counting::alive;
  std::atomic<int> creates = 0;
  std::atomic<bool> go_on = false;
  HookedFileSystem files(checkpoint::posix_file_system(), [&](FileOperation operation) {
    if (operation == FileOperation::create && ++creates == 3)  // behind the lock and the tensors the index
      while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  CheckpointManager manager(Checkpoint({{"weights", weights}}), folder.path(), {.async = true, .files = &files});
  manager.save();
  weights.fill_(1);
  for (int i = 0; i < 10'000 && (creates < 3 || Counting::alive > before); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ReleaseQueue::of_this_thread()->release();
  }
  EXPECT_EQ(creates, 3);
  EXPECT_EQ(Counting::alive, before);
  go_on = true;
  EXPECT_EQ(manager.checkpoints().size(), 1);
}

TEST(CheckpointManager, AnAsynchronousSaveKeepsItsValuesWhateverBecomesOfTheTensors) {
  for (const Snapshot snapshot : {Snapshot::copy_on_write, Snapshot::copies}) {
    const TemporaryFolder folder;
    constexpr int64_t kSize = 1 << 20;
    Tensor replaced = at::full({kSize}, 1.0F), dropped = at::full({kSize}, 2.0F);
    Tensor tied = at::full({kSize}, 3.0F), row = tied.view({4, -1})[1], turned = at::full({4, kSize / 4}, 5.0F).t();
    CheckpointManager manager(
        Checkpoint({{"replaced", replaced}, {"dropped", dropped}, {"tied", tied}, {"row", row}, {"turned", turned}}),
        folder.path(), {.async = true, .snapshot = snapshot});
    const auto path = manager.save();
    replaced.set_data(at::zeros({3}));
    dropped.reset();
    row.zero_();
    turned.mul_(-1);
    manager.wait();
    const checkpoint::Reader reader(checkpoint::posix_file_system(), path);
    int64_t value = 0;
    for (const char* name : {"replaced", "dropped", "tied"}) {
      const Tensor saved = reader.read(name);
      EXPECT_EQ(saved.numel(), kSize) << name;
      EXPECT_TRUE(saved.eq(++value).all().item<bool>()) << name;
    }
    EXPECT_TRUE(reader.read("row").eq(3).all().item<bool>());
    EXPECT_TRUE(reader.read("turned").eq(5).all().item<bool>());
  }
}

// As an iterator of a dataset: looks at a state before it takes it.
class Pipeline : public Savable {
 public:
  explicit Pipeline(int64_t batch) : batch(batch) {}
  void visit_state(StateVisitor& visitor) override {
    visitor.prepared(
        "position", [this] { return at::full({1}, batch, at::kByte); },
        [this](const Tensor& state) -> std::function<void()> {
          if (state.item<int64_t>() != batch) throw Error(code, str("batch(", state.item<int64_t>(), ")"));
          return [this] { ++taken; };
        });
  }

  int64_t batch;
  ErrorCode code = ErrorCode::data_loss;
  int taken = 0;
};

TEST(CheckpointManager, AChangedPipelineIsRefusedBeforeAnythingChanges) {
  const TemporaryFolder folder;
  const Tensor weights = at::ones({2});
  int64_t step = 7;
  Pipeline first(3), second(2);
  CheckpointManager manager(Checkpoint({{"step", step}, {"first", first}, {"second", second}, {"weights", weights}}),
                            folder.path());
  manager.save();
  second.batch = 5;
  manager.save();
  step = 0;
  weights.zero_();
  second.batch = 2;  // as the older one has it
  const CollectedWarnings warnings;
  for (const ErrorCode code : {ErrorCode::data_loss, ErrorCode::failed_precondition}) {
    second.code = code;
    EXPECT_THAT(error_of([&] { manager.restore_or_initialize(); }),
                AllOf(HasSubstr("failed_precondition"), HasSubstr("ckpt-2'"), HasSubstr("'second/position'"),
                      HasSubstr("batch(5)")));
    EXPECT_EQ(step, 0);
    EXPECT_EQ(first.taken, 0);
    EXPECT_TRUE(weights.equal(at::zeros({2})));
  }
  EXPECT_THAT(warnings.lines(), testing::IsEmpty()) << "no older one was taken";
  second.batch = 5;
  EXPECT_EQ(manager.restore_or_initialize(), folder.path() / "ckpt-2");
  EXPECT_EQ(step, 7);
  EXPECT_EQ(first.taken + second.taken, 2);
}

TEST(CheckpointManager, AnotherProgramsCheckpointIsRefusedBeforeAnythingChanges) {
  const TemporaryFolder folder;
  const Tensor weights = at::ones({2});
  int64_t step = 1;
  CheckpointManager(Checkpoint({{"weights", weights}, {"step", step}}), folder.path()).save();
  step = 9;
  CheckpointManager manager(Checkpoint({{"step", step}}), folder.path());
  EXPECT_THAT(error_of([&] { manager.restore_or_initialize(); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("'weights'"), HasSubstr("expect_partial")));
  EXPECT_EQ(step, 9);
}

}  // namespace
}  // namespace tutti
