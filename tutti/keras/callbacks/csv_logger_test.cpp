// The callbacks that write numbers down: CSVLogger and TensorBoard, whose files tests/tensorboard reads too.
#include "tutti/keras/callbacks/csv_logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"
#include "tests/support/scripted_training.h"
#include "tests/support/temporary_folder.h"
#include "tutti/data/tfrecord.h"
#include "tutti/keras/callbacks/number_text.h"
#include "tutti/keras/callbacks/tensorboard.h"

namespace tutti::keras {
namespace {

using callbacks::CSVLogger;
using callbacks::number_text;
using callbacks::TensorBoard;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(NumberText, IsPythons) {
  EXPECT_EQ(number_text(1), "1.0");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(-0.0001), "-0.0001");
  EXPECT_EQ(number_text(0.00001), "1e-05");
  EXPECT_EQ(number_text(123456789012345680), "1.2345678901234568e+17");
  EXPECT_EQ(number_text(1e15), "1000000000000000.0");
  EXPECT_EQ(number_text(1e16), "1e+16");
  EXPECT_EQ(number_text(0), "0.0");
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
}

// Replaces the logs of each epoch, so that the file has known numbers.
callbacks::Callback logs_are(const std::vector<Logs>& epochs) {
  return callbacks::LambdaCallback(
      {.on_epoch_end = [=](auto&, int64_t epoch, Logs& logs) { logs = epochs.at(static_cast<size_t>(epoch)); }});
}

TEST(CSVLogger, WritesALineForEachEpoch) {
  const TemporaryFolder folder;
  train(line(), 2,
        {logs_are({{{"loss", 0.5}, {"val_loss", 1e-5}}, {{"loss", 0.25}, {"val_loss", 2}}}),
         CSVLogger({.filename = folder / "log.csv"})});
  EXPECT_EQ(folder.read("log.csv"), "epoch,loss,val_loss\r\n0,0.5,1e-05\r\n1,0.25,2.0\r\n");
}

TEST(CSVLogger, KeepsTheColumnsOfTheFirstEpoch) {
  const TemporaryFolder folder;
  train(line(), 3,
        {logs_are({{{"loss", 1}}, {{"loss", 2}, {"other", 5}, {"val_loss", 3}}, {{"other", 5}}}),
         CSVLogger({.filename = folder / "log.csv"})});
  EXPECT_EQ(folder.read("log.csv"), "epoch,loss,val_loss\r\n0,1.0,NA\r\n1,2.0,3.0\r\n2,NA,NA\r\n");
}

TEST(CSVLogger, AppendsWithoutASecondHeader) {
  const TemporaryFolder folder;
  const auto logs = logs_are({{{"val_loss", 1}}});
  train(line(), 1, {logs, CSVLogger({.filename = folder / "log.csv", .append = true})});
  train(line(), 1, {logs, CSVLogger({.filename = folder / "log.csv", .append = true})});
  EXPECT_EQ(folder.read("log.csv"), "epoch,val_loss\r\n0,1.0\r\n0,1.0\r\n");
  train(line(), 1, {logs, CSVLogger({.filename = folder / "log.csv"})});
  EXPECT_EQ(folder.read("log.csv"), "epoch,val_loss\r\n0,1.0\r\n");
}

TEST(CSVLogger, QuotesWhatTheSeparatorWouldDivide) {
  const TemporaryFolder folder;
  train(line(), 1,
        {logs_are({{{"a;\"b\"", 1}, {"val_c", 0.5}}}), CSVLogger({.filename = folder / "log.csv", .separator = ';'})});
  EXPECT_EQ(folder.read("log.csv"), "epoch;\"a;\"\"b\"\"\";val_c\r\n0;1.0;0.5\r\n");
}

TEST(CSVLogger, HasEachLineInTheFileWhenItsEpochEnds) {
  const TemporaryFolder folder;
  std::vector<std::string> seen;
  const callbacks::LambdaCallback look({.on_epoch_end = [&](auto&&...) { seen.push_back(folder.read("log.csv")); }});
  train(line(), 2, {logs_are({{{"val_a", 1}}, {{"val_a", 2}}}), CSVLogger({.filename = folder / "log.csv"}), look});
  EXPECT_EQ(seen[0], "epoch,val_a\r\n0,1.0\r\n");
}

TEST(CSVLogger, IsToldBeforeTrainingThatTheFileCannotBeWritten) {
  const TemporaryFolder folder;
  const Sequential model = line();
  EXPECT_THAT(error_of([&] { train(model, 1, {CSVLogger({.filename = folder / "no/log.csv"})}); }),
              HasSubstr("unavailable: CSVLogger: cannot open '"));
  EXPECT_EQ(weight_of(model), 1);
  EXPECT_EQ(code_of([] { CSVLogger({}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { CSVLogger({.filename = "f", .separator = '\n'}); }), ErrorCode::invalid_argument);
}

// The records of the one event file of the folder, one after the other.
std::string events_in(const std::filesystem::path& folder) {
  std::string records;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    for (const auto& record : data::tfrecord_dataset({file.path()})) records += record.item();
  return records;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(TensorBoard, WritesAnEpochsNumbersWhereTensorBoardLooks) {
  const TemporaryFolder folder;
  train(line(), 2, {scripted("val_loss", {1, 2}), TensorBoard({.log_dir = folder / "logs"})});
  const std::string trained = events_in(folder / "logs/train"), validated = events_in(folder / "logs/validation");
  for (const char* tag : {"epoch_loss", "epoch_mae", "epoch_accuracy", "epoch_learning_rate"})
    EXPECT_EQ(count(trained, tag), 2U) << tag;
  EXPECT_EQ(count(validated, "epoch_loss"), 2U);
  EXPECT_THAT(trained, Not(HasSubstr("batch_")));
  EXPECT_THAT(trained, Not(HasSubstr("histogram")));
}

TEST(TensorBoard, WritesNumbersOfBatchesAndHistogramsWhenAsked) {
  const TemporaryFolder folder;
  train(line(), 3,
        {TensorBoard({.log_dir = folder.path(),
                      .histogram_freq = 2,
                      .write_images = true,
                      .write_steps_per_second = true,
                      .update_freq = 3})});
  const std::string trained = events_in(folder / "train");
  EXPECT_EQ(count(trained, "batch_loss"), 2U);  // of 6 batches
  EXPECT_EQ(count(trained, "batch_steps_per_second"), 2U);
  EXPECT_EQ(count(trained, "epoch_steps_per_second"), 3U);
  EXPECT_EQ(count(trained, "dense/kernel/histogram"), 2U);
}

TEST(TensorBoard, WritesEvaluations) {
  const TemporaryFolder folder;
  const TensorBoard board({.log_dir = folder.path()});
  line().evaluate(at::ones({4, 1}), at::zeros({4, 1}), {.verbose = Verbose::silent, .callbacks = {board}});
  EXPECT_THAT(events_in(folder / "validation"), HasSubstr("evaluation_mae_vs_iterations"));
}

TEST(TensorBoard, RefusesWhatWontDo) {
  EXPECT_EQ(code_of([] { TensorBoard({.histogram_freq = -1}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { TensorBoard({.update_freq = 0}); }), ErrorCode::invalid_argument);
  const TemporaryFolder folder;
  folder.write("file", "");
  EXPECT_EQ(code_of([&] { train(line(), 1, {TensorBoard({.log_dir = folder / "file"})}); }), ErrorCode::unavailable);
}

}  // namespace
}  // namespace tutti::keras
