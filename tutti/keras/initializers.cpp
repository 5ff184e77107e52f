#include "tutti/keras/initializers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_qr.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <variant>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras::initializers {
namespace {

struct Fans {
  double in;
  double out;
};

Fans fans(at::IntArrayRef shape) {
  if (shape.empty()) return {1, 1};
  if (shape.size() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double receptive_field = 1;
  for (const int64_t extent : shape.slice(0, shape.size() - 2)) receptive_field *= static_cast<double>(extent);
  return {receptive_field * static_cast<double>(shape[shape.size() - 2]),
          receptive_field * static_cast<double>(shape.back())};
}

double fan(at::IntArrayRef shape, FanMode mode) {
  const auto [in, out] = fans(shape);
  switch (mode) {
    case FanMode::fan_in: return in;
    case FanMode::fan_out: return out;
    case FanMode::fan_avg: return (in + out) / 2;
  }
  return in;
}

using Generator = std::optional<at::Generator>;

Generator generator_of(Seed seed, const Tensor& x) {
  return seed ? Generator(make_generator(*seed, x.device())) : std::nullopt;
}

void fill_truncated_normal(Tensor& x, double mean, double stddev, Seed seed) {
  const double edge = std::erf(2 / std::numbers::sqrt2);
  x.uniform_(-edge, edge, generator_of(seed, x)).erfinv_().mul_(stddev * std::numbers::sqrt2).add_(mean);
}

void fill_scaled(Tensor& x, const VarianceScalingOptions& options) {
  const double variance = options.scale / std::max(1.0, fan(x.sizes(), options.mode));
  switch (options.distribution) {
    case Distribution::uniform: {
      const double limit = std::sqrt(3 * variance);
      x.uniform_(-limit, limit, generator_of(options.seed, x));
      return;
    }
    case Distribution::truncated_normal: {
      constexpr double kStddevOfTruncated = 0.87962566103423978;  // of a standard normal cut at -2 and 2
      fill_truncated_normal(x, 0, std::sqrt(variance) / kStddevOfTruncated, options.seed);
      return;
    }
    case Distribution::untruncated_normal: x.normal_(0, std::sqrt(variance), generator_of(options.seed, x)); return;
  }
}

void fill_orthogonal(Tensor& x, double gain, Seed seed) {
  if (x.dim() < 2)
    throw Error(ErrorCode::invalid_argument,
                str("orthogonal: the shape is ", to_string(x.sizes()), "; it must have at least two axes"));
  const int64_t num_columns = x.size(-1);
  const int64_t num_rows = num_columns == 0 ? 0 : x.numel() / num_columns;
  const Tensor normal = x.new_empty({std::max(num_rows, num_columns), std::min(num_rows, num_columns)})
                            .normal_(0, 1, generator_of(seed, x));
  const auto [q, r] = at::linalg_qr(normal);
  const Tensor tall = q * r.diagonal().sign();  // the decomposition is unique up to signs: without, q is not uniform
  x.copy_((num_rows < num_columns ? tall.t() : tall).reshape(x.sizes()) * gain);
}

void fill_identity(Tensor& x, double gain) {
  if (x.dim() != 2)
    throw Error(ErrorCode::invalid_argument,
                str("identity: the shape is ", to_string(x.sizes()), "; it must have two axes"));
  x.copy_(at::eye(x.size(0), x.size(1), at::dtype(x.scalar_type())) * gain);
}

VarianceScalingOptions checked(const VarianceScalingOptions& options) {
  if (options.scale > 0) return options;
  throw Error(ErrorCode::invalid_argument, str("variance_scaling: scale is ", options.scale, "; it must be positive"));
}

}  // namespace

Initializer::Initializer(std::string name, Fill fill, std::any made_from)
    : name_(std::move(name)), fill_(std::move(fill)), made_from_(std::move(made_from)) {}

Tensor Initializer::operator()(const Shape& shape, at::ScalarType dtype) const {
  const c10::NoGradGuard no_grad;
  Tensor tensor = at::empty(shape, at::TensorOptions().dtype(dtype));
  if (!c10::isReducedFloatingType(dtype)) {
    fill_(tensor);
    return tensor;
  }
  // LibTorch has no decompositions in half precision, and random numbers of a few digits are not around their mean.
  Tensor wide = tensor.new_empty(shape, at::kFloat);
  fill_(wide);
  return tensor.copy_(wide);
}

Constant::Constant(double value)
    : Initializer(
          "constant", [value](Tensor& x) { x.fill_(value); }, value) {}
Zeros::Zeros()
    : Initializer(
          "zeros", [](Tensor& x) { x.zero_(); }, std::monostate()) {}
Ones::Ones()
    : Initializer(
          "ones", [](Tensor& x) { x.fill_(1); }, std::monostate()) {}

RandomNormal::RandomNormal(const RandomNormalOptions& options)
    : Initializer(
          "random_normal",
          [options](Tensor& x) { x.normal_(options.mean, options.stddev, generator_of(options.seed, x)); }, options) {}
TruncatedNormal::TruncatedNormal(const RandomNormalOptions& options)
    : Initializer(
          "truncated_normal",
          [options](Tensor& x) { fill_truncated_normal(x, options.mean, options.stddev, options.seed); }, options) {}
RandomUniform::RandomUniform(const RandomUniformOptions& options)
    : Initializer(
          "random_uniform",
          [options](Tensor& x) { x.uniform_(options.minval, options.maxval, generator_of(options.seed, x)); },
          options) {}

VarianceScaling::VarianceScaling(const VarianceScalingOptions& options, std::string name)
    : Initializer(
          std::move(name), [options = checked(options)](Tensor& x) { fill_scaled(x, options); }, options) {}

GlorotUniform::GlorotUniform(const SeedOptions& options)
    : VarianceScaling({.mode = FanMode::fan_avg, .distribution = Distribution::uniform, .seed = options.seed},
                      "glorot_uniform") {}
GlorotNormal::GlorotNormal(const SeedOptions& options)
    : VarianceScaling({.mode = FanMode::fan_avg, .seed = options.seed}, "glorot_normal") {}
HeUniform::HeUniform(const SeedOptions& options)
    : VarianceScaling({.scale = 2, .distribution = Distribution::uniform, .seed = options.seed}, "he_uniform") {}
HeNormal::HeNormal(const SeedOptions& options) : VarianceScaling({.scale = 2, .seed = options.seed}, "he_normal") {}
LecunUniform::LecunUniform(const SeedOptions& options)
    : VarianceScaling({.distribution = Distribution::uniform, .seed = options.seed}, "lecun_uniform") {}
LecunNormal::LecunNormal(const SeedOptions& options) : VarianceScaling({.seed = options.seed}, "lecun_normal") {}

Identity::Identity(double gain)
    : Initializer(
          "identity", [gain](Tensor& x) { fill_identity(x, gain); }, gain) {}
Orthogonal::Orthogonal(double gain, Seed seed)
    : Initializer(
          "orthogonal", [gain, seed](Tensor& x) { fill_orthogonal(x, gain, seed); },
          OrthogonalOptions{.gain = gain, .seed = seed}) {}

}  // namespace tutti::keras::initializers
