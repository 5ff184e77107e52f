#include "tutti/keras/optimizers/loss_scale_optimizer.h"

#include <algorithm>
#include <utility>

#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/distribute/loss_scale.h"
#include "tutti/keras/optimizers/common_options_internal.h"
#include "tutti/tensor/updates/measures.h"

namespace tutti::keras::optimizers {
namespace {

// float32's smallest and largest power of two: a scale of 0 or infinity would never come back.
constexpr double kSmallestScale = 0x1p-126, kLargestScale = 0x1p127;

// Whatever an optimizer has is the inner one's; its own are the scale and the number of good updates since it changed.
class LossScaleImpl final : public OptimizerImpl {
 public:
  LossScaleImpl(std::shared_ptr<OptimizerImpl> inner, const LossScaleOptimizerOptions& options)
      : OptimizerImpl({.learning_rate = 0.0, .name = options.name}, /*slots=*/{}),
        inner_(std::move(inner)),
        growth_steps_(options.dynamic_growth_steps),
        scale_(options.initial_scale) {
    require(*scale_ > 0, name(), "initial_scale", *scale_, "positive");
    require(growth_steps_ > 0, name(), "dynamic_growth_steps", static_cast<double>(growth_steps_), "positive");
  }

  double scale() const { return *scale_; }

  Tensor scale_loss(const Tensor& loss) const override { return scale_.times(loss); }
  bool scales_loss() const override { return true; }

  void apply(std::span<const Tensor> gradients, std::span<const Tensor> variables, double scale) override {
    const auto is_good = [](const Tensor& gradient) { return !gradient.defined() || all_finite(gradient); };
    if (!std::ranges::all_of(gradients, is_good)) return skip();
    inner_->apply(gradients, variables, scale / *scale_);
    if (++num_good_ < growth_steps_) return;
    num_good_ = 0;
    *scale_ = std::min(*scale_ * 2, kLargestScale);
  }

  int64_t iterations() const override { return inner_->iterations(); }
  double learning_rate() const override { return inner_->learning_rate(); }
  void set_learning_rate(LearningRate rate) override { inner_->set_learning_rate(std::move(rate)); }
  bool has_schedule() const override { return inner_->has_schedule(); }
  void exclude_from_weight_decay(std::function<bool(const Tensor&)> excluded) override {
    inner_->exclude_from_weight_decay(std::move(excluded));
  }
  void finalize_variable_values(std::span<const Tensor> variables) override {
    inner_->finalize_variable_values(variables);
  }
  void swap_averages() override { inner_->swap_averages(); }
  void reset_averages() override { inner_->reset_averages(); }
  std::vector<Tensor> state() const override { return inner_->state(); }

  void visit_state(StateVisitor& visitor) override {
    visitor.number("dynamic_scale", *scale_);
    visitor.number("step_counter", num_good_);
    visitor.object("inner_optimizer", *inner_);
  }

 private:
  void make_states(std::span<const Tensor> variables) override { inner_->build(variables, {}); }
  void update_variable(const Tensor&, const Tensor&, std::span<const Tensor>, const UpdateStep&) const override {}

  void skip() {
    if (*scale_ <= 1 && !std::exchange(warned_, true))
      warn(str(name(), ": gradients are not finite at a loss scale of ", *scale_,
               ", where no overflow explains it; updates are left out until they are"));
    num_good_ = 0;
    *scale_ = std::max(*scale_ / 2, kSmallestScale);
  }

  std::shared_ptr<OptimizerImpl> inner_;
  int64_t growth_steps_;
  LossScale scale_;
  int64_t num_good_ = 0;
  bool warned_ = false;
};

}  // namespace

LossScaleOptimizer::LossScaleOptimizer(const Optimizer& inner_optimizer, const LossScaleOptimizerOptions& options)
    : Optimizer(std::make_shared<LossScaleImpl>(inner_optimizer.impl(), options)), inner_(inner_optimizer) {
  impl()->tell_made_from({"LossScaleOptimizer", std::pair(inner_optimizer, options)});
}

double LossScaleOptimizer::dynamic_scale() const { return static_cast<const LossScaleImpl&>(*impl()).scale(); }

}  // namespace tutti::keras::optimizers
