#include "tutti/keras/optimizers/sgd.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/optimizers/common_options_internal.h"

namespace tutti::keras::optimizers {
namespace {

class SGDImpl : public OptimizerImpl {
 public:
  explicit SGDImpl(const SGDOptions& options)
      : OptimizerImpl(common_options(options), options.momentum == 0 ? 0 : 1),
        momentum_(options.momentum),
        nesterov_(options.nesterov) {
    if (!(momentum_ >= 0 && momentum_ <= 1))
      throw Error(ErrorCode::invalid_argument, str(name(), ": momentum is ", momentum_, "; it must lie in [0, 1]"));
  }

 private:
  void update_variable(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                       const UpdateStep& step) const override {
    if (momentum_ == 0) {
      variable.sub_(gradient, step.learning_rate);
      return;
    }
    const Tensor& velocity = slots[0];
    velocity.mul_(momentum_).sub_(gradient, step.learning_rate);
    if (nesterov_)
      variable.add_(velocity, momentum_).sub_(gradient, step.learning_rate);
    else
      variable.add_(velocity);
  }

  double momentum_;
  bool nesterov_;
};

}  // namespace

SGD::SGD(const SGDOptions& options) : Optimizer(std::make_shared<SGDImpl>(options)) {}

}  // namespace tutti::keras::optimizers
