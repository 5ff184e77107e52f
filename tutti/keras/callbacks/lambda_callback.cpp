#include "tutti/keras/callbacks/lambda_callback.h"

#include <memory>
#include <utility>

namespace tutti::keras::callbacks {
namespace {

class LambdaCallbackImpl : public CallbackImpl {
 public:
  explicit LambdaCallbackImpl(LambdaCallbackOptions functions) : on_(std::move(functions)) {}

  void on_train_begin(TrainingState& state) override { call(on_.on_train_begin, state); }
  void on_train_end(TrainingState& state, const Logs& logs) override { call(on_.on_train_end, state, logs); }
  void on_epoch_begin(TrainingState& state, int64_t epoch) override { call(on_.on_epoch_begin, state, epoch); }
  void on_epoch_end(TrainingState& state, int64_t epoch, Logs& logs) override {
    call(on_.on_epoch_end, state, epoch, logs);
  }
  void on_train_batch_begin(TrainingState& state, int64_t batch) override {
    call(on_.on_train_batch_begin, state, batch);
  }
  void on_train_batch_end(TrainingState& state, int64_t batch, const RunningLogs& running) override {
    call(on_.on_train_batch_end, state, batch, running);
  }

  void on_test_begin(const Model& model) override { call(on_.on_test_begin, model); }
  void on_test_end(const Model& model, const Logs& logs) override { call(on_.on_test_end, model, logs); }
  void on_test_batch_begin(const Model& model, int64_t batch) override { call(on_.on_test_batch_begin, model, batch); }
  void on_test_batch_end(const Model& model, int64_t batch, const RunningLogs& running) override {
    call(on_.on_test_batch_end, model, batch, running);
  }

  void on_predict_begin(const Model& model) override { call(on_.on_predict_begin, model); }
  void on_predict_end(const Model& model) override { call(on_.on_predict_end, model); }
  void on_predict_batch_begin(const Model& model, int64_t batch) override {
    call(on_.on_predict_batch_begin, model, batch);
  }
  void on_predict_batch_end(const Model& model, int64_t batch) override {
    call(on_.on_predict_batch_end, model, batch);
  }

  bool has_train_batch_hooks() const override { return on_.on_train_batch_begin || on_.on_train_batch_end; }

 private:
  template <class Function, class... Arguments>
  static void call(const Function& function, Arguments&... arguments) {
    if (function) function(arguments...);
  }

  LambdaCallbackOptions on_;
};

}  // namespace

LambdaCallback::LambdaCallback(LambdaCallbackOptions functions)
    : Callback(std::make_shared<LambdaCallbackImpl>(std::move(functions))) {}

}  // namespace tutti::keras::callbacks
