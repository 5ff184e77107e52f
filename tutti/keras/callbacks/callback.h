#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include "tutti/keras/history.h"

namespace tutti::keras {

class Model;
class RunningLogs;

namespace callbacks {

// What a fit tells its callbacks about itself, and what they may change.
struct TrainingState {
  const Model& model;
  int64_t initial_epoch = 0;  // may be changed in on_train_begin, by what resumes a training
  int64_t epochs = 1;
  int64_t steps = -1;          // of an epoch; negative: unknown before its end
  bool stop_training = false;  // set: fit ends after this batch
};

// What stands behind a Callback; derive from it to write one. All calls come on the thread that called fit, evaluate or
// predict, outside of scopes and replicas, once for all replicas, with numbers that are reduced over them.
// TF: tf.keras.callbacks.Callback
class CallbackImpl {
 public:
  virtual ~CallbackImpl() = default;

  virtual void on_train_begin(TrainingState&) {}
  virtual void on_train_end(TrainingState&, const Logs&) {}
  virtual void on_epoch_begin(TrainingState&, int64_t /*epoch*/) {}
  // The logs hold "val_…" too; what is added to them is in the history and the printed line.
  virtual void on_epoch_end(TrainingState&, int64_t /*epoch*/, Logs&) {}
  virtual void on_train_batch_begin(TrainingState&, int64_t /*batch*/) {}
  // The epoch's numbers so far; asking for them waits for the devices.
  virtual void on_train_batch_end(TrainingState&, int64_t /*batch*/, const RunningLogs&) {}

  virtual void on_test_begin(const Model&) {}
  virtual void on_test_end(const Model&, const Logs&) {}
  virtual void on_test_batch_begin(const Model&, int64_t /*batch*/) {}
  virtual void on_test_batch_end(const Model&, int64_t /*batch*/, const RunningLogs&) {}

  virtual void on_predict_begin(const Model&) {}
  virtual void on_predict_end(const Model&) {}
  virtual void on_predict_batch_begin(const Model&, int64_t /*batch*/) {}
  virtual void on_predict_batch_end(const Model&, int64_t /*batch*/) {}

  // Of a class that overrides on_train_batch_begin or on_train_batch_end: whether they do anything. Then workers that
  // train without each other cannot have it.
  virtual bool has_train_batch_hooks() const { return true; }
};

// Whether a class has such hooks of its own. One that does not say, as they are private, has.
template <class Impl>
consteval bool overrides_train_batch_hooks() {
  if constexpr (std::same_as<Impl, CallbackImpl>) return true;  // any may stand behind it
  if constexpr (requires {
                  &Impl::on_train_batch_begin;
                  &Impl::on_train_batch_end;
                })
    return !std::same_as<decltype(&Impl::on_train_batch_begin), decltype(&CallbackImpl::on_train_batch_begin)> ||
           !std::same_as<decltype(&Impl::on_train_batch_end), decltype(&CallbackImpl::on_train_batch_end)>;
  return true;
}

// A shared handle: copies are the same callback.
class Callback {
 public:
  template <std::derived_from<CallbackImpl> Impl>
  Callback(std::shared_ptr<Impl> impl)
      : impl_(std::move(impl)), overrides_train_batch_hooks_(overrides_train_batch_hooks<Impl>()) {}

  CallbackImpl* operator->() const { return impl_.get(); }
  bool has_train_batch_hooks() const { return overrides_train_batch_hooks_ && impl_->has_train_batch_hooks(); }

 private:
  std::shared_ptr<CallbackImpl> impl_;
  bool overrides_train_batch_hooks_;
};

}  // namespace callbacks
}  // namespace tutti::keras
