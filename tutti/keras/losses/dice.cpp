#include "tutti/keras/losses/dice.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <numeric>

#include "tutti/keras/label_shapes.h"
#include "tutti/keras/losses/epsilon.h"
#include "tutti/keras/losses/shards.h"

namespace tutti::keras::losses {
namespace {

struct Overlap {
  Tensor both;            // sum(y p)
  Tensor labels;          // sum(y)
  Tensor predictions;     // sum(p)
  bool of_batch = false;  // the sums go over the batch
};

std::vector<int64_t> checked_axes(const std::string& name, const std::vector<int64_t>& axis, int64_t dim) {
  std::vector<int64_t> axes(axis.empty() ? static_cast<size_t>(dim) : axis.size());
  if (axis.empty())
    std::iota(axes.begin(), axes.end(), 0);
  else
    std::transform(axis.begin(), axis.end(), axes.begin(), [&](int64_t a) { return checked_axis(name, a, dim); });
  return axes;
}

Overlap overlap(const std::string& name, const std::vector<int64_t>& axis, const Tensor& y_true, const Tensor& y_pred,
                const Shards& shards) {
  const auto [labels, predictions] = elementwise_pair(name, y_true, y_pred);
  const std::vector<int64_t> axes = checked_axes(name, axis, predictions.dim());
  const bool of_batch = std::find(axes.begin(), axes.end(), 0) != axes.end();
  Tensor sums = at::stack({(labels * predictions).sum(axes), labels.sum(axes), predictions.sum(axes)});
  if (of_batch) sums = shards.sum(sums);
  return {.both = sums[0], .labels = sums[1], .predictions = sums[2], .of_batch = of_batch};
}

}  // namespace

Dice::Dice(const DiceOptions& options)
    : Loss(options.name, options.reduction,
           [options](const Tensor& y_true, const Tensor& y_pred, const Shards& shards) {
             const Overlap sums = overlap(options.name, options.axis, y_true, y_pred, shards);
             return Values{.values = 1 - 2 * sums.both / (sums.labels + sums.predictions + kEpsilon),
                           .of_batch = sums.of_batch};
           }) {
  tell_made_from({"Dice", options});
}

Tversky::Tversky(const TverskyOptions& options)
    : Loss(options.name, options.reduction,
           [options](const Tensor& y_true, const Tensor& y_pred, const Shards& shards) {
             const Overlap sums = overlap(options.name, options.axis, y_true, y_pred, shards);
             const Tensor false_positives = sums.predictions - sums.both;
             const Tensor false_negatives = sums.labels - sums.both;
             const Tensor all = sums.both + options.alpha * false_positives + options.beta * false_negatives;
             return Values{.values = 1 - sums.both / (all + kEpsilon), .of_batch = sums.of_batch};
           }) {
  tell_made_from({"Tversky", options});
}

}  // namespace tutti::keras::losses
