#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace tutti {

// The number that a loss is multiplied by, so that gradients in float16 are neither zero nor infinite. In a recorded
// function each replay has it as it then is.
class LossScale {
 public:
  explicit LossScale(double value) : value_(std::make_shared<double>(value)) {}
  LossScale(const LossScale&) = delete;  // the copy would have to be another number
  LossScale(LossScale&&) = default;
  LossScale& operator=(LossScale&&) = default;

  double& operator*() { return *value_; }
  double operator*() const { return *value_; }

  // loss * scale, in float32 where the loss has 16 bits, which may not hold the product. Grad: likewise.
  at::Tensor times(const at::Tensor& loss) const;

 private:
  std::shared_ptr<double> value_;  // shared by recordings, which may live on
};

}  // namespace tutti
