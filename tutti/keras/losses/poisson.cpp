#include "tutti/keras/losses/poisson.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"

namespace tutti::keras::losses {

Poisson::Poisson(const PoissonOptions& options)
    : Loss(options.name, options.reduction, [name = options.name](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
        return (predictions - labels * (predictions + kEpsilon).log()).mean(-1);
      }) {
  tell_made_from({"Poisson", options});
}

}  // namespace tutti::keras::losses
