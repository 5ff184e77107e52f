#include <ATen/core/Reduction.h>

#include "tutti/core/error.h"
#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

Expression reduced(Expression losses, int64_t reduction) {
  if (reduction == at::Reduction::None) return losses;
  const Dims axes = all_axes(losses.rank());
  return reduction == at::Reduction::Mean ? mean(losses, axes) : sum(losses, axes);
}
// The gradient of each loss.
Expression shared(Expression g, const Dims& dims, int64_t reduction) {
  return reduction == at::Reduction::Mean ? g / static_cast<double>(numel(dims)) : g;
}

// Where the class is the row's, and is not the one to ignore: [rows, classes].
Expression chosen(Builder& b, const Call& c, size_t classes, size_t ignored, int64_t num_classes,
                  at::ScalarType dtype) {
  const Expression target{&b, c.value(classes)};
  const Expression counts = compare("NE", target, target.with(b.splat_like(c.scalar(ignored), target.value)));
  const Expression hot = one_hot(target, num_classes, dtype);
  return hot * reshape(convert(counts, dtype), {target.dims()[0], 1});
}

Expression weighted(Builder& b, const Call& c, Expression rows, size_t weight) {
  return c.has(weight) ? rows * wide(b, c, weight) : rows;
}

void refuse_spatial(Expression x) {
  if (x.rank() != 2)
    throw Error(ErrorCode::unimplemented, "classes of [rows, classes] alone; flatten the others into rows");
}

// Log probabilities, classes, weight of each class, reduction, class to ignore; the loss, and the sum of weights.
Results nll_loss(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  refuse_spatial(x);
  const Expression weights = weighted(b, c, chosen(b, c, 1, 4, x.dims()[1], x.value.dtype()), 2);
  const Expression losses = -sum(weights * x, {1});
  const int64_t reduction = c.integer(3);
  if (reduction == at::Reduction::None) return {losses, x.with(b.splat(0, {x.value.dtype(), {}}))};
  const Expression total = sum(weights, {0, 1}), loss = sum(losses, {0});
  return {reduction == at::Reduction::Mean ? loss / total : loss, total};
}

// Gradient, log probabilities, classes, weights, reduction, class to ignore, sum of weights.
Results nll_loss_backward(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 1);
  refuse_spatial(x);
  Expression g = wide(b, c, 0);
  const int64_t reduction = c.integer(4);
  if (reduction == at::Reduction::Mean) g = g / wide(b, c, 6);
  if (reduction == at::Reduction::None) g = reshape(g, {x.dims()[0], 1});
  return {-(weighted(b, c, chosen(b, c, 2, 5, x.dims()[1], x.value.dtype()), 3) * g)};
}

Results mse_loss(Builder& b, const Call& c) {
  const Expression away = wide(b, c, 0) - wide(b, c, 1);
  return {reduced(away * away, c.integer(2))};
}
Results mse_loss_backward(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 1);
  return {expand(shared(wide(b, c, 0), x.dims(), c.integer(3)), x.dims()) * (x - wide(b, c, 2)) * 2};
}

// Of probabilities; logarithms are cut at -100, as LibTorch does.
Results binary_cross_entropy(Builder& b, const Call& c) {
  const Expression p = wide(b, c, 0), y = wide(b, c, 1);
  const Expression losses = -(y * maximum(log(p), -100) + (1 - y) * maximum(log(1 - p), -100));
  return {reduced(c.has(2) ? losses * wide(b, c, 2) : losses, c.integer(3))};
}
Results binary_cross_entropy_backward(Builder& b, const Call& c) {
  const Expression p = wide(b, c, 1), y = wide(b, c, 2);
  const Expression g = shared(wide(b, c, 0), p.dims(), c.integer(4)) * (p - y) / maximum((1 - p) * p, 1e-12);
  return {c.has(3) ? g * wide(b, c, 3) : g};
}

constexpr NamedLowering kLosses[] = {
    {"nll_loss_forward", nll_loss},
    {"nll_loss_backward", nll_loss_backward},
    {"mse_loss", mse_loss},
    {"mse_loss_backward", mse_loss_backward},
    {"binary_cross_entropy", binary_cross_entropy},
    {"binary_cross_entropy_backward", binary_cross_entropy_backward},
};

}  // namespace

std::span<const NamedLowering> loss_lowerings() { return kLosses; }

}  // namespace tutti::stablehlo
