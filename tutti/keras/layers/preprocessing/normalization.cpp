#include "tutti/keras/layers/preprocessing/normalization.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"

namespace tutti::keras::layers {
namespace {

// Mean and variance of numbers that come in batches. Source: Chan, Golub and LeVeque 1979, Updating Formulae and a
// Pairwise Algorithm for Computing Sample Variances.
struct RunningMoments {
  int64_t count = 0;
  Tensor mean, variance;  // float64

  void add(const RunningMoments& batch) {
    if (count == 0) {
      *this = batch;
      return;
    }
    const double share = static_cast<double>(batch.count) / static_cast<double>(count + batch.count);
    const Tensor difference = batch.mean - mean;
    mean = mean + difference * share;
    variance = variance * (1 - share) + batch.variance * share + difference.square() * (share * (1 - share));
    count += batch.count;
  }
};

}  // namespace

class Normalization::Impl : public LayerImpl {
 public:
  InputCast input_cast() const override { return InputCast::none; }

  explicit Impl(const NormalizationOptions& options) : LayerImpl("Normalization", options.name), options_(options) {
    if (options_.mean.has_value() != options_.variance.has_value())
      refuse("mean and variance must be given together, or neither");
    if (!options_.mean) return;
    if (options_.mean->sizes() != options_.variance->sizes())
      refuse(str("mean has shape ", to_string(options_.mean->sizes()), ", variance ",
                 to_string(options_.variance->sizes()), "; the shapes must be equal"));
    if (options_.mean->dim() > static_cast<int64_t>(options_.axis.size()))
      refuse(str("mean has shape ", to_string(options_.mean->sizes()), "; it may have one axis for each of axis ",
                 str_list(options_.axis)));
  }

  void build(const Shape& input_shape) override {
    extents_ = kept_extents(input_shape);
    if (options_.mean) {
      if (!at::is_expandable_to(options_.mean->sizes(), extents_))
        refuse(str("mean has shape ", to_string(options_.mean->sizes()), "; the input's kept axes have extents ",
                   str_list(extents_)));
      mean_ = options_.mean->expand(extents_);
      variance_ = options_.variance->expand(extents_);
      return;
    }
    mean_ = add_weight("mean", extents_, {.initializer = initializers::Zeros(), .trainable = false});
    variance_ = add_weight("variance", extents_, {.initializer = initializers::Ones(), .trainable = false});
    count_ = add_weight("count", {}, {.initializer = initializers::Zeros(), .trainable = false});
  }

  void reset() { moments_ = {}; }
  void update(const Tensor& batch);
  void finalize();

  Tensor call(const Tensor& x, const CallOptions&) const override {
    constexpr double kEpsilon = 1e-7;
    const Shape shape = x.sizes().vec();
    check_extents(shape);
    Shape broadcast(shape.size(), 1);
    for (const int64_t axis : kept_axes(shape)) broadcast[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
    const Tensor input = floating(x);
    const Tensor mean = mean_.reshape(broadcast).to(input.options());
    const Tensor deviation = variance_.reshape(broadcast).to(input.options()).sqrt().clamp_min(kEpsilon);
    return options_.invert ? input * deviation + mean : (input - mean) / deviation;
  }

  Shape compute_output_shape(const Shape& input_shape) const override { return input_shape; }

  bool supports_masking() const override { return true; }

 private:
  // From 0, ascending.
  std::vector<int64_t> kept_axes(const Shape& shape) const;
  Shape kept_extents(const Shape& shape) const;
  void check_extents(const Shape& shape) const;
  RunningMoments moments_of(const Tensor& batch) const;

  NormalizationOptions options_;
  Shape extents_;  // of the kept axes
  Tensor mean_, variance_, count_;
  RunningMoments moments_;  // of the adaptation under way
};

std::vector<int64_t> Normalization::Impl::kept_axes(const Shape& shape) const {
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> axes;
  for (const int64_t axis : options_.axis) {
    if (axis < -rank || axis >= rank) refuse(str("axis ", axis, " is not one of an input of shape ", to_string(shape)));
    axes.push_back(axis < 0 ? axis + rank : axis);
    if (shape[static_cast<size_t>(axes.back())] == kUnknown)
      refuse(str("the input has shape ", to_string(shape), "; its extent along axis ", axis, " must be known"));
  }
  std::ranges::sort(axes);
  return axes;
}

Shape Normalization::Impl::kept_extents(const Shape& shape) const {
  Shape extents;
  for (const int64_t axis : kept_axes(shape)) extents.push_back(shape[static_cast<size_t>(axis)]);
  return extents;
}

void Normalization::Impl::check_extents(const Shape& shape) const {
  if (kept_extents(shape) != extents_)
    refuse(str("the input has shape ", to_string(shape), "; the layer was built for extents ", str_list(extents_),
               " along axis ", str_list(options_.axis)));
}

RunningMoments Normalization::Impl::moments_of(const Tensor& batch) const {
  const std::vector<int64_t> kept = kept_axes(batch.sizes().vec());
  std::vector<int64_t> reduced;
  RunningMoments moments{.count = 1};
  for (int64_t axis = 0; axis < batch.dim(); ++axis) {
    if (std::ranges::binary_search(kept, axis)) continue;
    reduced.push_back(axis);
    moments.count *= batch.size(axis);
  }
  const Tensor numbers = batch.detach().to(at::kDouble);
  if (reduced.empty())  // LibTorch would reduce all
    std::tie(moments.variance, moments.mean) = std::tuple(at::zeros_like(numbers), numbers);
  else
    std::tie(moments.variance, moments.mean) = at::var_mean(numbers, reduced, /*unbiased=*/false);
  return moments;
}

void Normalization::Impl::update(const Tensor& batch) {
  if (options_.mean) refuse("adapt() would replace the mean and variance of the options; give none");
  build_once({batch.sizes().vec()});
  check_extents(batch.sizes().vec());
  if (batch.numel() > 0) moments_.add(moments_of(batch));
}

void Normalization::Impl::finalize() {
  if (moments_.count == 0) throw Error(ErrorCode::failed_precondition, str(name(), ": adapt() found no number"));
  const c10::NoGradGuard no_grad;
  mean_.copy_(moments_.mean);
  variance_.copy_(moments_.variance);
  count_.fill_(moments_.count);
  reset();
}

Normalization::Normalization(const NormalizationOptions& options) : Layer(std::make_shared<Impl>(options), options) {}

Normalization::Impl& Normalization::state() const { return static_cast<Impl&>(*impl()); }

void Normalization::adapt(const Tensor& x) {
  reset_state();
  update_state(x);
  finalize_state();
}

void Normalization::reset_state() { state().reset(); }
void Normalization::update_state(const Tensor& batch) { state().update(batch); }
void Normalization::finalize_state() { state().finalize(); }

}  // namespace tutti::keras::layers
