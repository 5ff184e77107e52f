#include "tutti/keras/callbacks/reduce_lr_on_plateau.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/keras/callbacks/model_learning_rate.h"
#include "tutti/keras/callbacks/number_text.h"

namespace tutti::keras::callbacks {
namespace {

class ReduceLROnPlateauImpl : public CallbackImpl {
 public:
  explicit ReduceLROnPlateauImpl(const ReduceLROnPlateauOptions& options)
      : options_(options), monitor_("ReduceLROnPlateau", options.monitor, options.mode, options.min_delta) {
    if (options.factor >= 1)
      refuse(str("does not support a factor >= 1.0. Received factor=", number_text(options.factor)));
    if (!(options.factor >= 0)) refuse(str("factor is ", number_text(options.factor), "; it must lie in [0, 1)"));
    if (options.patience < 0 || options.cooldown < 0 || !(options.min_lr >= 0))
      refuse(str("patience is ", options.patience, ", cooldown ", options.cooldown, " and min_lr ",
                 number_text(options.min_lr), "; they must not be negative"));
  }

  void on_train_begin(TrainingState& state) override {
    monitor_.resolve(state.model);
    best_.reset();
    wait_ = cooldown_ = 0;
  }

  void on_epoch_end(TrainingState& state, int64_t epoch, Logs& logs) override {
    monitor_.resolve(state.model);
    logs["learning_rate"] = learning_rate(state.model);
    const std::optional<double> current = monitor_.value(logs);
    if (!current) {
      warn(str("Learning rate reduction is conditioned on metric ", monitor_.unavailable(logs), '.'));
      return;
    }
    if (cooldown_ > 0) {
      --cooldown_;
      wait_ = 0;
    }
    if (monitor_.improves(*current, best_)) {
      best_ = current;
      wait_ = 0;
    } else if (cooldown_ == 0 && ++wait_ >= options_.patience) {
      reduce(state.model, epoch);
    }
  }

 private:
  [[noreturn]] static void refuse(const std::string& message) {
    throw Error(ErrorCode::invalid_argument, "ReduceLROnPlateau " + message);
  }

  void reduce(const Model& model, int64_t epoch) {
    const double old_rate = learning_rate(model);
    if (old_rate <= options_.min_lr) return;
    const double rate = std::max(old_rate * options_.factor, options_.min_lr);
    set_learning_rate(model, rate);
    cooldown_ = options_.cooldown;
    wait_ = 0;
    if (options_.verbose)
      std::cout << "\nEpoch " << epoch + 1 << ": ReduceLROnPlateau reducing learning rate to " << number_text(rate)
                << ".\n"
                << std::flush;
  }

  ReduceLROnPlateauOptions options_;
  Monitor monitor_;
  std::optional<double> best_;
  int64_t wait_ = 0;      // epochs since the last improvement
  int64_t cooldown_ = 0;  // epochs that are left of it
};

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(const ReduceLROnPlateauOptions& options)
    : Callback(std::make_shared<ReduceLROnPlateauImpl>(options)) {}

}  // namespace tutti::keras::callbacks
