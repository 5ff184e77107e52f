#include "tutti/keras/callbacks/swap_ema_weights.h"

#include <memory>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/model.h"

namespace tutti::keras::callbacks {
namespace {

class SwapEMAWeightsImpl : public CallbackImpl {
 public:
  explicit SwapEMAWeightsImpl(bool swap_on_epoch) : swap_on_epoch_(swap_on_epoch) {}

  void on_epoch_begin(TrainingState& state, int64_t) override {
    if (swap_on_epoch_) use_averages(state.model, false);
  }
  void on_epoch_end(TrainingState& state, int64_t epoch, Logs&) override {
    if (!swap_on_epoch_ || averages_in_model_) return;
    use_averages(state.model, true);
    // At its end fit takes the averages for the weights; they are in the weights' place, and both shall be equal.
    if (epoch == state.epochs - 1 || state.stop_training) optimizer_of(state.model).reset_averages();
  }
  void on_test_begin(const Model& model) override { use_averages(model, true); }
  void on_test_end(const Model& model, const Logs&) override { use_averages(model, false); }
  void on_predict_begin(const Model& model) override { use_averages(model, true); }
  void on_predict_end(const Model& model) override { use_averages(model, false); }

 private:
  static const optimizers::Optimizer& optimizer_of(const Model& model) {
    const auto& optimizer = model.model().compiled().optimizer;
    if (!optimizer)
      throw Error(ErrorCode::failed_precondition,
                  str("SwapEMAWeights: ", model.name(), " has no optimizer; compile it with one that has use_ema"));
    return *optimizer;
  }

  void use_averages(const Model& model, bool averages) {
    if (averages_in_model_ == averages) return;
    optimizer_of(model).swap_averages();
    averages_in_model_ = averages;
  }

  bool swap_on_epoch_;
  bool averages_in_model_ = false;
};

}  // namespace

SwapEMAWeights::SwapEMAWeights(const SwapEMAWeightsOptions& options)
    : Callback(std::make_shared<SwapEMAWeightsImpl>(options.swap_on_epoch)) {}

}  // namespace tutti::keras::callbacks
