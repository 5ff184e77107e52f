#include "tutti/keras/regularizers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/shape.h"

namespace tutti::keras::regularizers {
namespace {

Tensor mean_cosine(const Tensor& w, OrthogonalRegularizerOptions::Mode mode) {
  if (w.dim() != 2)
    throw Error(ErrorCode::invalid_argument,
                str("orthogonal_regularizer: the weight has shape ", to_string(w.sizes()), "; it must be a matrix"));
  constexpr double kEpsilon = 1e-7;  // keras.config.epsilon()
  const Tensor vectors = mode == OrthogonalRegularizerOptions::Mode::rows ? w : w.t();
  const Tensor squares = vectors.square().sum(1, /*keepdim=*/true);
  const Tensor units = vectors * squares.clamp_min(kEpsilon * kEpsilon).rsqrt();
  const auto num = static_cast<double>(vectors.size(0));
  const Tensor cosines = at::mm(units, units.t()).abs();
  return (cosines.sum() - cosines.trace()) / (num * (num - 1));
}

}  // namespace

Regularizer::Regularizer(std::string name, Penalty penalty, std::any made_from)
    : name_(std::move(name)), penalty_(std::move(penalty)), made_from_(std::move(made_from)) {}

L1::L1(double l1)
    : Regularizer(
          "l1", [l1](const Tensor& w) { return l1 * w.abs().sum(); }, l1) {}

L2::L2(double l2)
    : Regularizer(
          "l2", [l2](const Tensor& w) { return l2 * w.square().sum(); }, l2) {}

L1L2::L1L2(const L1L2Options& options)
    : Regularizer(
          "l1_l2", [options](const Tensor& w) { return options.l1 * w.abs().sum() + options.l2 * w.square().sum(); },
          options) {}

OrthogonalRegularizer::OrthogonalRegularizer(const OrthogonalRegularizerOptions& options)
    : Regularizer(
          "orthogonal_regularizer",
          [options](const Tensor& w) { return options.factor * mean_cosine(w, options.mode); }, options) {}

}  // namespace tutti::keras::regularizers
