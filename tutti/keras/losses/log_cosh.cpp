#include "tutti/keras/losses/log_cosh.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/softplus.h>

#include <cmath>

#include "tutti/keras/label_shapes.h"

namespace tutti::keras::losses {

LogCosh::LogCosh(const LogCoshOptions& options)
    : Loss(options.name, options.reduction, [name = options.name](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
        const Tensor x = predictions - labels;
        return (x + at::softplus(-2 * x) - std::log(2.0)).mean(-1);
      }) {
  tell_made_from({"LogCosh", options});
}

}  // namespace tutti::keras::losses
