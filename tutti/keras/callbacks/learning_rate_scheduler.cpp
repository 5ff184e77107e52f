#include "tutti/keras/callbacks/learning_rate_scheduler.h"

#include <cmath>
#include <iostream>
#include <memory>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/callbacks/model_learning_rate.h"
#include "tutti/keras/callbacks/number_text.h"

namespace tutti::keras::callbacks {
namespace {

class LearningRateSchedulerImpl : public CallbackImpl {
 public:
  LearningRateSchedulerImpl(LearningRateScheduler::Schedule schedule, bool verbose)
      : schedule_(std::move(schedule)), verbose_(verbose) {
    if (!schedule_) throw Error(ErrorCode::invalid_argument, "LearningRateScheduler: the schedule is empty");
  }

  void on_epoch_begin(TrainingState& state, int64_t epoch) override {
    const double rate = schedule_(epoch, learning_rate(state.model));
    if (!std::isfinite(rate) || rate < 0)
      throw Error(ErrorCode::invalid_argument, str("LearningRateScheduler: the schedule returned ", number_text(rate),
                                                   " for epoch ", epoch, "; a learning rate is 0 or more, and finite"));
    set_learning_rate(state.model, rate);
    if (verbose_)
      std::cout << "\nEpoch " << epoch + 1 << ": LearningRateScheduler setting learning rate to " << number_text(rate)
                << ".\n"
                << std::flush;
  }

  void on_epoch_end(TrainingState& state, int64_t, Logs& logs) override {
    logs["learning_rate"] = learning_rate(state.model);
  }

 private:
  LearningRateScheduler::Schedule schedule_;
  bool verbose_;
};

}  // namespace

LearningRateScheduler::LearningRateScheduler(Schedule schedule, const LearningRateSchedulerOptions& options)
    : Callback(std::make_shared<LearningRateSchedulerImpl>(std::move(schedule), options.verbose)) {}

}  // namespace tutti::keras::callbacks
