// ModelCheckpoint, its paths, and when it is its time.
#include "tutti/keras/callbacks/model_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/scripted_training.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/keras/callbacks/path_template.h"

namespace tutti::keras {
namespace {

using callbacks::ModelCheckpoint;
using callbacks::PathTemplate;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST(PathTemplate, WritesNumbersAsPythonDoes) {
  const Logs logs = {{"val_loss", 0.125}, {"tiny", 1e-5}, {"low", -0.5}};
  const PathTemplate::Numbers numbers{.epoch = 7, .batch = 12, .logs = logs};
  const auto fill = [&](const char* text) { return PathTemplate(text).fill(numbers).string(); };
  EXPECT_EQ(fill("plain"), "plain");
  EXPECT_EQ(fill("{epoch}-{batch:04d}"), "7-0012");
  EXPECT_EQ(fill("{epoch:02d}-{val_loss:.2f}.npz"), "07-0.12.npz");
  EXPECT_EQ(fill("{epoch:3}|{epoch:.1f}"), "  7|7.0");
  EXPECT_EQ(fill("{val_loss}|{tiny}|{val_loss:08.3f}|{val_loss:.1e}|{tiny:g}"), "0.125|1e-05|0000.125|1.2e-01|1e-05");
  EXPECT_EQ(fill("{low:06}|{low:6}|{low:06.2f}"), "-000.5|  -0.5|-00.50");
  EXPECT_EQ(fill("{{epoch}}{{{epoch}}}"), "{epoch}{7}");
}

TEST(PathTemplate, RefusesPlacesOfAnotherForm) {
  for (const char* text : {"", "{", "}", "a{epoch", "{}", "{:02d}", "{epoch:x}", "{epoch:<3d}", "{epoch:.2d}",
                           "{loss:.f}", "{loss:.2}", "{epoch:999d}", "{epoch:-3d}", "{epoch!r:2d"})
    EXPECT_EQ(code_of([&] { PathTemplate{text}; }), ErrorCode::invalid_argument) << text;
}

TEST(PathTemplate, RefusesNamesThatTheLogsLack) {
  const Logs logs = {{"loss", 1}};
  const auto fill = [&](const char* text) {
    return error_of([&] { PathTemplate(text).fill({.epoch = 1, .batch = {}, .logs = logs}); });
  };
  EXPECT_THAT(fill("m-{mape:.2f}"), HasSubstr("Failed to format this callback filepath: \"m-{mape:.2f}\". Reason: "
                                              "'mape'; there are: epoch, loss"));
  EXPECT_THAT(fill("{batch}"), HasSubstr("Reason: 'batch'"));
  EXPECT_THAT(fill("{loss:d}"), HasSubstr("no whole number"));
}

TEST(PathTemplate, KnowsTheFolderThatDoesNotChange) {
  EXPECT_EQ(PathTemplate("a/b/c{epoch}/d").fixed_folder(), "a/b/");
  EXPECT_EQ(PathTemplate("a/b/c").fixed_folder(), "a/b");
  EXPECT_EQ(PathTemplate("{epoch}").fixed_folder(), "");
}

TEST(BatchCounter, CountsOverEpochsWhereOnlyTheLastOfSomeBatchesIsSeen) {
  callbacks::BatchCounter third(3);
  EXPECT_FALSE(third.due(1));  // the second batch
  EXPECT_TRUE(third.due(3));
  EXPECT_FALSE(third.due(0));  // of the next epoch
  EXPECT_FALSE(third.due(1));
  EXPECT_TRUE(third.due(2));
  callbacks::BatchCounter each("batch"), never("epoch");
  EXPECT_TRUE(each.due(0));
  EXPECT_TRUE(each.due(0));
  EXPECT_FALSE(never.due(0));
}

TEST(ModelCheckpoint, SavesTheWeightsOfEachEpoch) {
  const TemporaryFolder folder;
  const Sequential model = line();
  const Training training = train(model, 2,
                                  {ModelCheckpoint({.filepath = folder / "new/{epoch:02d}-{loss:.2f}.safetensors",
                                                    .verbose = true,
                                                    .save_weights_only = true})});
  EXPECT_THAT(files_in(folder / "new"), UnorderedElementsAre("01-0.82.safetensors", "02-0.34.safetensors"));
  const std::string first = folder / "new/01-0.82.safetensors", second = folder / "new/02-0.34.safetensors";
  EXPECT_EQ(training.printed, "\nEpoch 1: saving model to " + first + "\n\nEpoch 1: finished saving model to " + first +
                                  "\n\nEpoch 2: saving model to " + second + "\n\nEpoch 2: finished saving model to " +
                                  second + '\n');
  const Sequential again = line();
  again.load_weights(second);
  EXPECT_EQ(weight_of(again), weight_of(model));
}

TEST(ModelCheckpoint, SavesTheBestOnly) {
  const TemporaryFolder folder;
  const std::string file = folder / "best.npz";
  const Sequential model = line();
  const Training training =
      train(model, 3,
            {scripted("val_loss", {0.5, 0.25, 0.75}),
             ModelCheckpoint({.filepath = file, .verbose = true, .save_best_only = true, .save_weights_only = true})});
  EXPECT_EQ(training.printed, "\nEpoch 1: val_loss improved from None to 0.50000, saving model to " + file +
                                  "\n\nEpoch 1: finished saving model to " + file +
                                  "\n\nEpoch 2: val_loss improved from 0.50000 to 0.25000, saving model to " + file +
                                  "\n\nEpoch 2: finished saving model to " + file +
                                  "\n\nEpoch 3: val_loss did not improve from 0.25000\n");
  const Sequential best = line(), two_epochs = line();
  best.load_weights(file);
  train(two_epochs, 2, {});
  EXPECT_EQ(weight_of(best), weight_of(two_epochs));
}

TEST(ModelCheckpoint, WantsMoreThanTheInitialThreshold) {
  const TemporaryFolder folder;
  train(line(), 2,
        {scripted("val_accuracy", {0.5, 0.75}), ModelCheckpoint({.filepath = folder / "{epoch}.npz",
                                                                 .monitor = "val_accuracy",
                                                                 .save_best_only = true,
                                                                 .save_weights_only = true,
                                                                 .initial_value_threshold = 0.5})});
  EXPECT_THAT(files_in(folder.path()), UnorderedElementsAre("2.npz"));
}

TEST(ModelCheckpoint, SavesAndWarnsWhereTheMonitoredNumberIsMissing) {
  const TemporaryFolder folder;
  const Training training = train(
      line(), 1, {ModelCheckpoint({.filepath = folder / "w.npz", .save_best_only = true, .save_weights_only = true})});
  EXPECT_THAT(files_in(folder.path()), UnorderedElementsAre("w.npz"));
  EXPECT_THAT(training.warnings, HasSubstr("Can save best model only with val_loss available"));
}

TEST(ModelCheckpoint, SavesTheWholeModelAfterSoManyBatches) {
  const TemporaryFolder folder;
  const Sequential model = line();
  train(model, 3, {ModelCheckpoint({.filepath = folder / "{epoch}-{batch}", .save_freq = 3})});
  EXPECT_THAT(files_in(folder.path()), UnorderedElementsAre("2-1", "3-2"));
  const Sequential again = line(0.7);
  Checkpoint({{"model", again}}).restore(folder / "3-2").assert_consumed();
  EXPECT_EQ(weight_of(again), weight_of(model));
  EXPECT_EQ(again.model().compiled().optimizer->iterations(), 6);
  EXPECT_EQ(again.model().compiled().optimizer->learning_rate(), 0.1);
}

TEST(ModelCheckpoint, RefusesPathsThatDoNotFit) {
  EXPECT_THAT(error_of([] { ModelCheckpoint({.filepath = "w.h5", .save_weights_only = true}); }),
              HasSubstr("must end in `.weights.h5`, `.safetensors` or `.npz`"));
  EXPECT_THAT(error_of([] { ModelCheckpoint({.filepath = "w.npz"}); }), HasSubstr("must not end"));
  EXPECT_THAT(error_of([] { ModelCheckpoint({.filepath = "best.keras"}); }), HasSubstr("ends in .keras"));
  EXPECT_EQ(code_of([] { ModelCheckpoint({.filepath = ""}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { ModelCheckpoint({.filepath = "m", .save_freq = 0}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { ModelCheckpoint({.filepath = "m", .save_freq = "day"}); }), ErrorCode::invalid_argument);
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { train(line(), 1, {ModelCheckpoint({.filepath = folder / "m-{mape}"})}); }),
              HasSubstr("Reason: 'mape'"));
}

TEST(ModelCheckpoint, IsToldBeforeTrainingThatNothingCanBeWritten) {
  const TemporaryFolder folder;
  folder.write("file", "");
  const Sequential model = line();
  EXPECT_EQ(code_of([&] { train(model, 1, {ModelCheckpoint({.filepath = folder / "file/sub/m-{epoch}"})}); }),
            ErrorCode::unavailable);
  EXPECT_EQ(weight_of(model), 1);
}

}  // namespace
}  // namespace tutti::keras
