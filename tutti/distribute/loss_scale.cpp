#include "tutti/distribute/loss_scale.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "tutti/tensor/call_recorder.h"

namespace tutti {

at::Tensor LossScale::times(const at::Tensor& loss) const {
  const Tensor wide = loss.element_size() < 4 ? loss.to(at::kFloat) : loss;
  if (!CallRecorder::current()) return wide * *value_;
  const Tensor scale = at::empty({}, wide.options().requires_grad(false));  // each replay has its own
  host_step("loss scale", {scale}, {scale},
            [value = value_](at::ArrayRef<Tensor> inputs) { Tensor(inputs[0]).fill_(*value); });
  return wide * scale;
}

}  // namespace tutti
