#include "tutti/keras/callbacks/early_stopping.h"

#include <ATen/core/Tensor.h>

#include <iostream>
#include <memory>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/keras/model.h"

namespace tutti::keras::callbacks {
namespace {

class EarlyStoppingImpl : public CallbackImpl {
 public:
  explicit EarlyStoppingImpl(const EarlyStoppingOptions& options)
      : options_(options), monitor_("EarlyStopping", options.monitor, options.mode, options.min_delta) {
    if (options.patience < 0 || options.start_from_epoch < 0)
      throw Error(ErrorCode::invalid_argument,
                  str("EarlyStopping: patience is ", options.patience, " and start_from_epoch ",
                      options.start_from_epoch, "; they must not be negative"));
  }

  void on_train_begin(TrainingState& state) override {
    monitor_.resolve(state.model);
    wait_ = stopped_epoch_ = best_epoch_ = 0;
    best_.reset();
    best_weights_.clear();
  }

  void on_epoch_end(TrainingState& state, int64_t epoch, Logs& logs) override {
    monitor_.resolve(state.model);
    const std::optional<double> current = monitor_.value(logs);
    if (!current) warn(str("Early stopping conditioned on metric ", monitor_.unavailable(logs)));
    if (!current || epoch < options_.start_from_epoch) return;
    if (options_.restore_best_weights && best_weights_.empty()) keep(state.model, epoch);
    ++wait_;
    if (monitor_.improves(*current, best_)) {
      best_ = current;
      keep(state.model, epoch);
      if (monitor_.improves(*current, options_.baseline)) wait_ = 0;
    } else if (wait_ >= options_.patience && epoch > 0) {
      stopped_epoch_ = epoch;
      state.stop_training = true;
    }
  }

  void on_train_end(TrainingState& state, const Logs&) override {
    if (stopped_epoch_ > 0 && options_.verbose)
      std::cout << "Epoch " << stopped_epoch_ + 1 << ": early stopping\n" << std::flush;
    if (best_weights_.empty()) return;
    if (options_.verbose)
      std::cout << "Restoring model weights from the end of the best epoch: " << best_epoch_ + 1 << ".\n" << std::flush;
    state.model.set_weights(best_weights_);
  }

  int64_t stopped_epoch() const { return stopped_epoch_; }
  int64_t best_epoch() const { return best_epoch_; }
  std::optional<double> best() const { return best_; }

 private:
  void keep(const Model& model, int64_t epoch) {
    best_epoch_ = epoch;
    if (options_.restore_best_weights) best_weights_ = model.get_weights();
  }

  EarlyStoppingOptions options_;
  Monitor monitor_;
  int64_t wait_ = 0;  // epochs since the last improvement
  int64_t stopped_epoch_ = 0;
  int64_t best_epoch_ = 0;
  std::optional<double> best_;
  std::vector<Tensor> best_weights_;  // with restore_best_weights
};

const EarlyStoppingImpl& impl(const EarlyStopping& callback) {
  return static_cast<const EarlyStoppingImpl&>(*callback.operator->());
}

}  // namespace

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options)
    : Callback(std::make_shared<EarlyStoppingImpl>(options)) {}

int64_t EarlyStopping::stopped_epoch() const { return impl(*this).stopped_epoch(); }
int64_t EarlyStopping::best_epoch() const { return impl(*this).best_epoch(); }
std::optional<double> EarlyStopping::best() const { return impl(*this).best(); }

}  // namespace tutti::keras::callbacks
