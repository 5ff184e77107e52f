#include "steppers.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "tests/support/dice.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/keras/optimizers/adadelta.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/adamax.h"
#include "tutti/keras/optimizers/adamw.h"
#include "tutti/keras/optimizers/ftrl.h"
#include "tutti/keras/optimizers/lion.h"
#include "tutti/keras/optimizers/nadam.h"
#include "tutti/keras/optimizers/rmsprop.h"
#include "tutti/keras/optimizers/schedules.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::fuzz {
namespace {

using at::Tensor;

template <class Torch>
class TorchStepper final : public Stepper {
 public:
  template <class Options>
  TorchStepper(const std::vector<Tensor>& parameters, const Options& options, bool two_groups)
      : optimizer_(Torch(groups(parameters, options, two_groups), options)) {}
  void zero_grad() const override { optimizer_.zero_grad(); }
  void step() const override {
    for (const auto& group : optimizer_.get().param_groups())
      for (const Tensor& parameter : group.params()) join_rows(parameter);
    optimizer_.step();
  }
  bool tells_graphs() const override { return !std::is_same_v<Torch, torch::optim::SGD>; }
  void set_rate(double rate) const override {
    for (auto& group : optimizer_.get().param_groups()) {
      group.options().set_lr(rate);
      rate /= 2;
    }
  }
  checkpoint::NamedTrackable in_checkpoint(const std::string& name) const override { return {name, optimizer_}; }

 private:
  // As a worker does, whose rows travel once.
  static void join_rows(const Tensor& parameter) {
    if (const Tensor& gradient = parameter.grad(); gradient.defined() && gradient.is_sparse())
      parameter.mutable_grad() = gradient.coalesce();
  }
  // The second group's learning rate is half as large.
  template <class Options>
  static std::vector<torch::optim::OptimizerParamGroup> groups(const std::vector<Tensor>& parameters, Options options,
                                                               bool two) {
    if (!two || parameters.size() < 2) return {torch::optim::OptimizerParamGroup(parameters)};
    const auto middle = parameters.begin() + static_cast<int64_t>(parameters.size() / 2);
    options.set_lr(options.get_lr() / 2);
    return {torch::optim::OptimizerParamGroup({parameters.begin(), middle}),
            torch::optim::OptimizerParamGroup({middle, parameters.end()}, std::make_unique<Options>(options))};
  }

  const Optimizer<Torch> optimizer_;
};

class KerasStepper final : public Stepper {
 public:
  KerasStepper(const keras::optimizers::Optimizer& optimizer, const std::vector<Tensor>& parameters, bool tells_graphs)
      : optimizer_(optimizer), parameters_(parameters), tells_graphs_(tells_graphs) {
    optimizer_.build(parameters_);
  }
  void zero_grad() const override {
    for (const Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }
  void step() const override {
    std::vector<Tensor> gradients;
    bool any = false;
    for (const Tensor& parameter : parameters_) {
      gradients.push_back(parameter.grad());
      any = any || gradients.back().defined();
    }
    if (any) optimizer_.apply_gradients(gradients, parameters_);
  }
  bool tells_graphs() const override { return tells_graphs_; }
  void set_rate(double rate) const override { optimizer_.set_learning_rate(rate); }
  checkpoint::NamedTrackable in_checkpoint(const std::string& name) const override { return {name, optimizer_}; }

 private:
  const keras::optimizers::Optimizer optimizer_;
  const std::vector<Tensor> parameters_;
  const bool tells_graphs_;
};

struct TorchChoice {
  explicit TorchChoice(const OptimizerPlan& plan) {
    Dice dice(plan.number);
    decay = dice.chance(40) ? 0.02 : 0;
    momentum = dice.chance(50) ? 0.5 : 0;
    flag = dice.chance(50);
    two_groups = dice.chance(50);
  }
  double decay, momentum;
  bool flag, two_groups;
};

std::unique_ptr<Stepper> make_torch(const OptimizerPlan& plan, const std::vector<Tensor>& parameters) {
  using namespace torch::optim;
  const auto [decay, momentum, flag, two] = TorchChoice(plan);
  switch (plan.kind) {
    case 0:
    case 1:
      return std::make_unique<TorchStepper<SGD>>(parameters,
                                                 SGDOptions(0.1)
                                                     .momentum(momentum)
                                                     .weight_decay(decay)
                                                     .nesterov(flag && momentum > 0)
                                                     .dampening(flag ? 0 : momentum / 2),
                                                 two);
    case 2:
      return std::make_unique<TorchStepper<Adam>>(parameters, AdamOptions(0.02).weight_decay(decay).amsgrad(flag), two);
    case 3:
      return std::make_unique<TorchStepper<AdamW>>(parameters, AdamWOptions(0.02).weight_decay(decay).amsgrad(flag),
                                                   two);
    case 4:
      return std::make_unique<TorchStepper<Adagrad>>(
          parameters,
          AdagradOptions(0.05).weight_decay(decay).lr_decay(momentum / 10).initial_accumulator_value(flag ? 0.1 : 0),
          two);
    default:
      return std::make_unique<TorchStepper<RMSprop>>(
          parameters, RMSpropOptions(0.02).weight_decay(decay).momentum(momentum).centered(flag), two);
  }
}

template <class Keras, class Options>
std::unique_ptr<Stepper> make_keras(Options options, Dice& dice, const std::vector<Tensor>& parameters) {
  options.learning_rate = 0.03;
  if (dice.chance(20))
    options.learning_rate = keras::optimizers::schedules::ExponentialDecay(
        {.initial_learning_rate = 0.05, .decay_steps = 3, .decay_rate = 0.5});
  if (dice.chance(30)) options.weight_decay = 0.02;
  if (dice.chance(20)) options.clipvalue = 0.05;
  if (dice.chance(20)) {
    options.use_ema = true;
    options.ema_momentum = 0.5;
    if (dice.chance(50)) options.ema_overwrite_frequency = 2;
  }
  if (dice.chance(20)) options.gradient_accumulation_steps = 2;
  return std::make_unique<KerasStepper>(Keras(options), parameters,
                                        !options.ema_overwrite_frequency && !options.gradient_accumulation_steps);
}

std::unique_ptr<Stepper> make_keras(const OptimizerPlan& plan, const std::vector<Tensor>& parameters) {
  using namespace keras::optimizers;
  Dice dice(plan.number);
  const bool flag = dice.chance(50);
  switch (plan.kind) {
    case 6: return make_keras<SGD>(SGDOptions{.momentum = flag ? 0.5 : 0, .nesterov = flag}, dice, parameters);
    case 7: return make_keras<Adam>(AdamOptions{.amsgrad = flag}, dice, parameters);
    case 8: return make_keras<AdamW>(AdamWOptions{}, dice, parameters);
    case 9: return make_keras<RMSprop>(RMSpropOptions{.momentum = flag ? 0.5 : 0, .centered = flag}, dice, parameters);
    case 10: return make_keras<Adagrad>(AdagradOptions{}, dice, parameters);
    case 11: return make_keras<Adadelta>(AdadeltaOptions{}, dice, parameters);
    case 12: return make_keras<Nadam>(NadamOptions{}, dice, parameters);
    case 13: return make_keras<Ftrl>(FtrlOptions{}, dice, parameters);
    default:
      return flag ? make_keras<Lion>(LionOptions{}, dice, parameters)
                  : make_keras<Adamax>(AdamaxOptions{}, dice, parameters);
  }
}

}  // namespace

bool takes_sparse(const OptimizerPlan& plan, bool as_dense) {
  const TorchChoice choice(plan);
  const bool is_adagrad = plan.kind == 4 && !as_dense, is_plain_sgd = plan.kind <= 1 && choice.momentum == 0;
  return plan.kind > 5 || (choice.decay == 0 && (is_adagrad || is_plain_sgd));
}

bool takes_complex(const OptimizerPlan& plan) { return plan.kind <= 1; }

std::unique_ptr<Stepper> make_stepper(const OptimizerPlan& plan, const std::vector<Tensor>& parameters) {
  return plan.kind <= 5 ? make_torch(plan, parameters) : make_keras(plan, parameters);
}

}  // namespace tutti::fuzz
