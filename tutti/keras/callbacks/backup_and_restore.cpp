#include "tutti/keras/callbacks/backup_and_restore.h"

#include <memory>
#include <optional>
#include <system_error>

#include "tutti/checkpoint/checkpoint_list.h"
#include "tutti/checkpoint/checkpoint_manager.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/callbacks/writable_folder.h"
#include "tutti/keras/model.h"

namespace tutti::keras::callbacks {
namespace {

class BackupAndRestoreImpl : public CallbackImpl {
 public:
  explicit BackupAndRestoreImpl(const BackupAndRestoreOptions& options)
      : options_(options), counter_(options.save_freq) {
    if (options.backup_dir.empty())
      throw Error(ErrorCode::invalid_argument, "BackupAndRestore: empty `backup_dir` argument passed");
  }

  void on_train_begin(TrainingState& state) override {
    if (!state.model.built())
      throw Error(
          ErrorCode::failed_precondition,
          str("To use the BackupAndRestore callback, your model must be built before you call `fit()`. Model ",
              state.model.name(),
              " is unbuilt. You can build it beforehand by build(shape), or by calling it on a batch of data."));
    is_chief_ = state.model.model().strategy().is_chief();
    make_writable_folder("BackupAndRestore", options_.backup_dir);
    counter_ = BatchCounter(options_.save_freq);
    epoch_ = state.initial_epoch;
    manager_.emplace(Checkpoint({{"model", state.model}, {"epoch", epoch_}}), options_.backup_dir,
                     CheckpointManagerOptions{.max_to_keep = options_.double_checkpoint ? 2 : 1});
    if (manager_->restore_or_initialize()) state.initial_epoch = epoch_;
  }

  void on_epoch_begin(TrainingState&, int64_t epoch) override { epoch_ = epoch; }

  void on_train_batch_end(TrainingState&, int64_t batch, const RunningLogs&) override {
    if (counter_.due(batch)) manager_->save();
  }

  void on_epoch_end(TrainingState&, int64_t epoch, Logs&) override {
    epoch_ = epoch + 1;
    if (!options_.save_freq.batches()) manager_->save();
  }

  void on_train_end(TrainingState&, const Logs&) override {
    if (options_.delete_checkpoint) delete_backups();
    manager_.reset();
  }

  bool has_train_batch_hooks() const override { return options_.save_freq.batches().has_value(); }

 private:
  // And the folder, unless something else is in it.
  void delete_backups() {
    std::error_code ignored;
    manager_->wait();
    if (!is_chief_) return;  // the chief may have removed what another process would list
    for (const std::filesystem::path& backup : manager_->checkpoints()) std::filesystem::remove_all(backup, ignored);
    for (const char* name : {checkpoint::kListName, checkpoint::kLockName})
      std::filesystem::remove(options_.backup_dir / name, ignored);
    std::filesystem::remove(options_.backup_dir, ignored);
  }

  BackupAndRestoreOptions options_;
  BatchCounter counter_;
  bool is_chief_ = true;
  int64_t epoch_ = 0;  // the one to go on with; saved
  std::optional<CheckpointManager> manager_;
};

}  // namespace

BackupAndRestore::BackupAndRestore(const BackupAndRestoreOptions& options)
    : Callback(std::make_shared<BackupAndRestoreImpl>(options)) {}

}  // namespace tutti::keras::callbacks
