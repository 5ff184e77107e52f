#pragma once

#include <cstdint>
#include <functional>

#include "tutti/keras/callbacks/callback.h"

namespace tutti::keras::callbacks {

// Functions for the hooks of CallbackImpl of the same names; those left out do nothing.
struct LambdaCallbackOptions {
  using OnModel = std::function<void(const Model& model)>;
  using OnModelBatch = std::function<void(const Model& model, int64_t batch)>;

  std::function<void(TrainingState& state)> on_train_begin = {};
  std::function<void(TrainingState& state, const Logs& logs)> on_train_end = {};
  std::function<void(TrainingState& state, int64_t epoch)> on_epoch_begin = {};
  std::function<void(TrainingState& state, int64_t epoch, Logs& logs)> on_epoch_end = {};
  std::function<void(TrainingState& state, int64_t batch)> on_train_batch_begin = {};
  std::function<void(TrainingState& state, int64_t batch, const RunningLogs& running)> on_train_batch_end = {};
  OnModel on_test_begin = {};
  std::function<void(const Model& model, const Logs& logs)> on_test_end = {};
  OnModelBatch on_test_batch_begin = {};
  std::function<void(const Model& model, int64_t batch, const RunningLogs& running)> on_test_batch_end = {};
  OnModel on_predict_begin = {};
  OnModel on_predict_end = {};
  OnModelBatch on_predict_batch_begin = {};
  OnModelBatch on_predict_batch_end = {};
};

// A callback made of functions. TF: tf.keras.callbacks.LambdaCallback
class LambdaCallback : public Callback {
 public:
  explicit LambdaCallback(LambdaCallbackOptions functions);
};

}  // namespace tutti::keras::callbacks
