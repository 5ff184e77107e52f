#include "tutti/stablehlo/expression.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

double count_of(const Expression& x, const Dims& axes) {
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(x.dims()[static_cast<size_t>(axis)]);
  return count;
}

// The last axes, as many as the list of sizes has.
Dims last_axes(size_t rank, size_t count) {
  Dims axes;
  for (size_t i = rank - count; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

// Input, sizes, weight, bias, epsilon; the result, means, and reciprocal deviations.
Results layer_norm(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  const Dims axes = last_axes(x.rank(), c.dims(1).size());
  const Expression center = mean(x, axes, Keep::yes), away = x - center;
  const Expression scale = rsqrt(mean(away * away, axes, Keep::yes) + c.real(4));
  Expression y = away * scale;
  if (c.has(2)) y = y * wide(b, c, 2);
  if (c.has(3)) y = y + wide(b, c, 3);
  return {y, center, scale};
}

// Gradient, input, sizes, means, reciprocal deviations, weight, bias, which are asked for.
Results layer_norm_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0), x = wide(b, c, 1), scale = wide(b, c, 4);
  const Dims axes = last_axes(x.rank(), c.dims(2).size()), rows = axes_but(x.rank(), axes);
  const Expression normal = (x - wide(b, c, 3)) * scale, weighted = c.has(5) ? g * wide(b, c, 5) : g;
  const std::vector<bool> wanted = c.flags(7);
  Results results(3);
  if (wanted[0])
    results[0] =
        (weighted - mean(weighted, axes, Keep::yes) - normal * mean(weighted * normal, axes, Keep::yes)) * scale;
  if (wanted[1]) results[1] = sum(g * normal, rows);
  if (wanted[2]) results[2] = sum(g, rows);
  return results;
}

// Input, weight, bias, running mean, running variance, training, momentum, epsilon. Behind the result, means and
// reciprocal deviations come the running statistics as they are then, if there are any.
Results batch_norm(Builder& b, const Call& c) {
  const Expression x = wide(b, c, 0);
  const Dims axes = axes_but(x.rank(), {1});
  const bool training = c.flag(5), tracks = c.has(3);
  const double momentum = c.real(6), epsilon = c.real(7), count = count_of(x, axes);
  const Expression center = training ? mean(x, axes) : wide(b, c, 3);
  const Expression away = x - per_channel(center, x.rank());
  const Expression variance = training ? mean(away * away, axes) : wide(b, c, 4);
  const Expression scale = rsqrt(variance + epsilon);
  Expression y = away * per_channel(scale, x.rank());
  if (c.has(1)) y = y * per_channel(wide(b, c, 1), x.rank());
  if (c.has(2)) y = y + per_channel(wide(b, c, 2), x.rank());
  if (!training)
    return {y, x.with(b.splat(0, {center.value.dtype(), {0}})), x.with(b.splat(0, {center.value.dtype(), {0}}))};
  Results results{y, center, scale};
  if (tracks) {
    results.push_back(wide(b, c, 3) * (1 - momentum) + center * momentum);
    results.push_back(wide(b, c, 4) * (1 - momentum) + variance * (momentum * count / (count - 1)));
  }
  return results;
}

// Gradient, input, weight, running mean and variance, means and reciprocal deviations, training, epsilon, which are
// asked.
Results batch_norm_backward(Builder& b, const Call& c) {
  const Expression g = wide(b, c, 0), x = wide(b, c, 1);
  const size_t rank = x.rank();
  const Dims axes = axes_but(rank, {1});
  const bool training = c.flag(7);
  const Expression center = training ? wide(b, c, 5) : wide(b, c, 3);
  const Expression scale = training ? wide(b, c, 6) : rsqrt(wide(b, c, 4) + c.real(8));
  const Expression normal = (x - per_channel(center, rank)) * per_channel(scale, rank);
  const Expression bias = sum(g, axes), weight = sum(g * normal, axes);
  const double count = count_of(x, axes);
  Expression to_x = g;
  if (training) to_x = g - per_channel(bias / count, rank) - normal * per_channel(weight / count, rank);
  to_x = to_x * per_channel(c.has(2) ? scale * wide(b, c, 2) : scale, rank);
  const std::vector<bool> wanted = c.flags(9);
  Results results(3);
  if (wanted[0]) results[0] = to_x;
  if (wanted[1]) results[1] = weight;
  if (wanted[2]) results[2] = bias;
  return results;
}

constexpr NamedLowering kNormalizations[] = {
    {"native_layer_norm", layer_norm},
    {"native_layer_norm_backward", layer_norm_backward},
    {"native_batch_norm", batch_norm},
    {"native_batch_norm_backward", batch_norm_backward},
};

}  // namespace

std::span<const NamedLowering> normalization_lowerings() { return kNormalizations; }

}  // namespace tutti::stablehlo
