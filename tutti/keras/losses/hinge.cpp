#include "tutti/keras/losses/hinge.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/shards.h"

namespace tutti::keras::losses {
namespace {

// max(1 - y p, 0) of each element. Whether labels are 0 and 1 is a question to the whole batch.
Tensor distances(const std::string& name, const Tensor& y_true, const Tensor& y_pred, const Shards& shards) {
  const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
  const Tensor num_others = shards.sum(labels.ne(0).logical_and(labels.ne(1)).sum());
  const Tensor signs = at::where(num_others == 0, 2 * labels - 1, labels);
  return (1 - signs * predictions).clamp_min(0);
}

}  // namespace

Hinge::Hinge(const HingeOptions& options)
    : Loss(options.name, options.reduction,
           [name = options.name](const Tensor& y_true, const Tensor& y_pred, const Shards& shards) {
             return Values{distances(name, y_true, y_pred, shards).mean(-1)};
           }) {
  tell_made_from({"Hinge", options});
}

SquaredHinge::SquaredHinge(const SquaredHingeOptions& options)
    : Loss(options.name, options.reduction,
           [name = options.name](const Tensor& y_true, const Tensor& y_pred, const Shards& shards) {
             return Values{distances(name, y_true, y_pred, shards).square().mean(-1)};
           }) {
  tell_made_from({"SquaredHinge", options});
}

CategoricalHinge::CategoricalHinge(const CategoricalHingeOptions& options)
    : Loss(options.name, options.reduction, [name = options.name](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
        const Tensor of_label = (labels * predictions).sum(-1);
        const Tensor of_others = ((1 - labels) * predictions).amax(-1);
        return (of_others - of_label + 1).clamp_min(0);
      }) {
  tell_made_from({"CategoricalHinge", options});
}

}  // namespace tutti::keras::losses
