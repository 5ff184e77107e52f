#include "tutti/keras/losses/cosine_similarity.h"

#include <ATen/TensorOperators.h>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"

namespace tutti::keras::losses {
namespace {

Tensor normalized(const Tensor& x, int64_t axis) {
  return x * x.square().sum(axis, /*keepdim=*/true).clamp_min(kEpsilon * kEpsilon).rsqrt();
}

}  // namespace

CosineSimilarity::CosineSimilarity(const CosineSimilarityOptions& options)
    : Loss(options.name, options.reduction, [options](const Tensor& y_true, const Tensor& y_pred) {
        const auto [labels, predictions] = elementwise_pair(options.name, y_true, y_pred);
        const int64_t axis = checked_axis_of_sample(options.name, options.axis, predictions.dim());
        return -(normalized(labels, axis) * normalized(predictions, axis)).sum(axis);
      }) {
  tell_made_from({"CosineSimilarity", options});
}

}  // namespace tutti::keras::losses
