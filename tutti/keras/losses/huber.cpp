#include "tutti/keras/losses/huber.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/huber_loss.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/label_shapes.h"

namespace tutti::keras::losses {

Huber::Huber(const HuberOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(options.name, y_true, y_pred);
        return at::huber_loss(predictions, labels, at::Reduction::None, options.delta).mean(-1);
      }) {
  if (!(options.delta > 0))
    throw Error(ErrorCode::invalid_argument, str(options.name, ": delta is ", options.delta, "; it must be above 0"));
  tell_made_from({"Huber", options});
}

}  // namespace tutti::keras::losses
