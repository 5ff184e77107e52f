#include "tutti/keras/callbacks/callback.h"

#include <gtest/gtest.h>

#include "tutti/keras/callbacks/backup_and_restore.h"
#include "tutti/keras/callbacks/csv_logger.h"
#include "tutti/keras/callbacks/early_stopping.h"
#include "tutti/keras/callbacks/lambda_callback.h"
#include "tutti/keras/callbacks/model_checkpoint.h"
#include "tutti/keras/callbacks/tensorboard.h"
#include "tutti/keras/callbacks/terminate_on_nan.h"

namespace tutti::keras::callbacks {
namespace {

struct OnEpochs : CallbackImpl {
  void on_epoch_begin(TrainingState&, int64_t) override {}
  void on_test_batch_end(const Model&, int64_t, const RunningLogs&) override {}
};
struct OnBatches : OnEpochs {
  void on_train_batch_end(TrainingState&, int64_t, const RunningLogs&) override {}
};
struct DerivedFromThat : OnBatches {};
class Private : public CallbackImpl {
  void on_train_batch_begin(TrainingState&, int64_t) override {}
};
struct Nothing : OnBatches {
  bool has_train_batch_hooks() const override { return false; }
};

TEST(Callback, KnowsWhetherItsClassActsOnBatchesOfTraining) {
  const auto has = [](const Callback& callback) { return callback.has_train_batch_hooks(); };
  EXPECT_FALSE(has(std::make_shared<OnEpochs>()));
  EXPECT_TRUE(has(std::make_shared<OnBatches>()));
  EXPECT_TRUE(has(std::make_shared<DerivedFromThat>()));
  EXPECT_TRUE(has(std::make_shared<Private>()));
  EXPECT_FALSE(has(std::make_shared<Nothing>()));
  EXPECT_TRUE(has(std::shared_ptr<CallbackImpl>(std::make_shared<OnEpochs>())));  // nobody knows its class
}

TEST(Callback, OnesOfTheLibrarySayWhetherTheyActOnBatchesOfTraining) {
  EXPECT_FALSE(EarlyStopping().has_train_batch_hooks());
  EXPECT_FALSE(CSVLogger({.filename = "log"}).has_train_batch_hooks());
  EXPECT_TRUE(TerminateOnNaN().has_train_batch_hooks());
  EXPECT_FALSE(ModelCheckpoint({.filepath = "here"}).has_train_batch_hooks());
  EXPECT_TRUE(ModelCheckpoint({.filepath = "here", .save_freq = 5}).has_train_batch_hooks());
  EXPECT_FALSE(BackupAndRestore({.backup_dir = "here"}).has_train_batch_hooks());
  EXPECT_TRUE(BackupAndRestore({.backup_dir = "here", .save_freq = 5}).has_train_batch_hooks());
  EXPECT_FALSE(TensorBoard({.log_dir = "here"}).has_train_batch_hooks());
  EXPECT_TRUE(TensorBoard({.log_dir = "here", .update_freq = 5}).has_train_batch_hooks());
  EXPECT_FALSE(LambdaCallback({.on_epoch_end = [](auto&&...) {}}).has_train_batch_hooks());
  EXPECT_TRUE(LambdaCallback({.on_train_batch_end = [](auto&&...) {}}).has_train_batch_hooks());
}

}  // namespace
}  // namespace tutti::keras::callbacks
