#pragma once

#include <ATen/TensorOperators.h>

#include <optional>
#include <string>
#include <utility>

#include "tutti/keras/layers/axis.h"

namespace tutti::keras::layers {

// The weights with which a normalization scales (gamma) and shifts (beta) its result, where the options ask for them.
struct AffineOptions {
  std::optional<WeightOptions> gamma;
  std::optional<WeightOptions> beta;
};

template <class Options>
AffineOptions affine_of(const Options& options) {
  AffineOptions affine;
  if (options.scale)
    affine.gamma = {.initializer = options.gamma_initializer,
                    .regularizer = options.gamma_regularizer,
                    .constraint = options.gamma_constraint};
  if (options.center)
    affine.beta = {.initializer = options.beta_initializer,
                   .regularizer = options.beta_regularizer,
                   .constraint = options.beta_constraint};
  return affine;
}

class AffineImpl : public LayerImpl {
 public:
  bool supports_masking() const override { return true; }
  InputCast input_cast() const override { return InputCast::numbers; }

 protected:
  AffineImpl(std::string type, std::string name, AffineOptions options)
      : LayerImpl(std::move(type), std::move(name)), options_(std::move(options)) {}

  void add_gamma_and_beta(const Shape& shape) {
    if (options_.gamma) gamma_ = add_weight("gamma", shape, *options_.gamma);
    if (options_.beta) beta_ = add_weight("beta", shape, *options_.beta);
  }

  // gamma * y + beta, where their axes are these of y.
  Tensor scaled_and_shifted(Tensor y, at::IntArrayRef axes) const {
    const Shape shape = broadcast_shape(axes, y.sizes());
    if (gamma_) y = y * gamma_->view(shape);
    return beta_ ? y + beta_->view(shape) : y;
  }

  const std::optional<Tensor>& gamma() const { return gamma_; }
  const std::optional<Tensor>& beta() const { return beta_; }

 private:
  AffineOptions options_;
  std::optional<Tensor> gamma_;
  std::optional<Tensor> beta_;
};

}  // namespace tutti::keras::layers
