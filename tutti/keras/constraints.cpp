#include "tutti/keras/constraints.h"

#include <ATen/TensorOperators.h>

#include <utility>
#include <variant>

namespace tutti::keras::constraints {
namespace {

constexpr double kEpsilon = 1e-7;  // keras.config.epsilon()

Tensor norm(const Tensor& w, at::IntArrayRef axis) { return w.square().sum(axis, /*keepdim=*/true).sqrt(); }

Tensor with_norm(const Tensor& w, const Tensor& norm, const Tensor& desired) {
  return w * (desired / (norm + kEpsilon));
}

}  // namespace

Constraint::Constraint(std::string name, Projection projection, std::any made_from)
    : name_(std::move(name)), projection_(std::move(projection)), made_from_(std::move(made_from)) {}

NonNeg::NonNeg()
    : Constraint(
          "non_neg", [](const Tensor& w) { return w.clamp_min(0); }, std::monostate()) {}

MaxNorm::MaxNorm(const MaxNormOptions& options)
    : Constraint(
          "max_norm",
          [options](const Tensor& w) {
            const Tensor norms = norm(w, options.axis);
            return with_norm(w, norms, norms.clamp_max(options.max_value));
          },
          options) {}

UnitNorm::UnitNorm(const UnitNormOptions& options)
    : Constraint(
          "unit_norm", [options](const Tensor& w) { return w / (norm(w, options.axis) + kEpsilon); }, options) {}

MinMaxNorm::MinMaxNorm(const MinMaxNormOptions& options)
    : Constraint(
          "min_max_norm",
          [options](const Tensor& w) {
            const Tensor norms = norm(w, options.axis);
            const Tensor clipped = norms.clamp(options.min_value, options.max_value);
            return with_norm(w, norms, options.rate * clipped + (1 - options.rate) * norms);
          },
          options) {}

}  // namespace tutti::keras::constraints
