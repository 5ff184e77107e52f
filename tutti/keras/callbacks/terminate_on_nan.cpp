#include "tutti/keras/callbacks/terminate_on_nan.h"

#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/callbacks/number_text.h"
#include "tutti/keras/running_logs.h"

namespace tutti::keras::callbacks {
namespace {

class TerminateOnNaNImpl : public CallbackImpl {
 public:
  explicit TerminateOnNaNImpl(bool raise_error) : raise_error_(raise_error) {}

  void on_train_batch_end(TrainingState& state, int64_t batch, const RunningLogs& running) override {
    const std::optional<double> seen = running.loss();
    if (!seen || std::isfinite(*seen)) return;
    const double loss = *seen;
    if (raise_error_)
      throw Error(ErrorCode::out_of_range, str("NaN or Inf loss encountered at batch ", batch, ". Loss value: ",
                                               number_text(loss), ". Terminating training immediately."));
    std::cout << "Batch " << batch << ": Invalid loss, terminating training\n" << std::flush;
    state.stop_training = true;
  }

 private:
  bool raise_error_;
};

}  // namespace

TerminateOnNaN::TerminateOnNaN(const TerminateOnNaNOptions& options)
    : Callback(std::make_shared<TerminateOnNaNImpl>(options.raise_error)) {}

}  // namespace tutti::keras::callbacks
