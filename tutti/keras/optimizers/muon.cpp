#include "tutti/keras/optimizers/muon.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "tutti/keras/optimizers/common_options_internal.h"
#include "tutti/keras/variable_notes.h"

namespace tutti::keras::optimizers {
namespace {

// The weight decay is not the base class's, as there are two.
CommonOptions without_weight_decay(const MuonOptions& options) {
  CommonOptions common = common_options(options);
  common.weight_decay.reset();
  return common;
}

// Slots: the momentum, and of Adam's variables the second moment.
class MuonImpl final : public OptimizerImpl {
 public:
  explicit MuonImpl(const MuonOptions& options)
      : OptimizerImpl(without_weight_decay(options), /*slots=*/{}), options_(options) {
    require_decay(options.name, "adam_beta_1", options.adam_beta_1);
    require_decay(options.name, "adam_beta_2", options.adam_beta_2);
    require_not_negative(options.name, "epsilon", options.epsilon);
    require(options.ns_steps >= 1, options.name, "ns_steps", static_cast<double>(options.ns_steps), "at least 1");
    for (const auto& [field, decay] :
         {std::pair{"weight_decay", options.weight_decay}, std::pair{"adam_weight_decay", options.adam_weight_decay}})
      if (decay) require_not_negative(options.name, field, *decay);
  }

 private:
  bool is_adams(const Tensor& variable) const {
    if (variable.dim() != 2) return true;
    const std::string path = path_of(variable);
    std::string lower = path;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (options_.exclude_embeddings && lower.find("embedding") != std::string::npos) return true;
    return std::ranges::any_of(options_.exclude_layers,
                               [&](const std::string& part) { return path.find(part) != std::string::npos; });
  }

  std::vector<Tensor> make_slots(const Tensor& variable) const override {
    std::vector<Tensor> slots{at::zeros_like(variable)};
    if (is_adams(variable)) slots.push_back(at::zeros_like(variable));
    return slots;
  }

  void update_variable(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                       const UpdateStep& step) const override {
    const bool adams = slots.size() > 1;
    if (const auto& decay = adams ? options_.adam_weight_decay : options_.weight_decay; decay && decays(variable))
      variable.mul_(1 - *decay * step.learning_rate);
    if (adams)
      update_by_adam(gradient, variable, slots, step);
    else
      update_matrix(gradient, variable, slots[0], step);
  }

  void update_by_adam(const Tensor& gradient, const Tensor& variable, std::span<const Tensor> slots,
                      const UpdateStep& step) const {
    const auto t = static_cast<double>(step.number);
    const double rate = step.learning_rate * options_.adam_lr_ratio * std::sqrt(1 - std::pow(options_.adam_beta_2, t)) /
                        (1 - std::pow(options_.adam_beta_1, t));
    slots[0].add_(gradient - slots[0], 1 - options_.adam_beta_1);
    slots[1].add_(gradient.square() - slots[1], 1 - options_.adam_beta_2);
    variable.sub_(slots[0] * rate / (slots[1].sqrt() + options_.epsilon));
  }

  void update_matrix(const Tensor& gradient, const Tensor& variable, const Tensor& momentum,
                     const UpdateStep& step) const {
    momentum.mul_(options_.momentum).add_(gradient);
    const Tensor direction = options_.nesterov ? gradient + momentum * options_.momentum : momentum;
    const auto longer_side = static_cast<double>(std::max(variable.size(0), variable.size(1)));
    const double size = options_.rms_rate ? *options_.rms_rate * std::sqrt(longer_side) : 1;
    variable.sub_(orthogonalized(direction), step.learning_rate * size);
  }

  Tensor orthogonalized(const Tensor& matrix) const {
    const bool tall = matrix.size(0) > matrix.size(1);
    Tensor x = tall ? matrix.t() : matrix;
    x = x / (x.square().sum().sqrt() + 1e-7);
    for (int64_t i = 0; i < options_.ns_steps; ++i) {
      const Tensor square = at::matmul(x, x.t());
      const Tensor polynomial = options_.muon_b * square + options_.muon_c * at::matmul(square, square);
      x = options_.muon_a * x + at::matmul(polynomial, x);
    }
    return tall ? x.t() : x;
  }

  MuonOptions options_;
};

}  // namespace

Muon::Muon(const MuonOptions& options) : Optimizer(std::make_shared<MuonImpl>(options)) {
  impl()->tell_made_from({"Muon", options});
}

}  // namespace tutti::keras::optimizers
