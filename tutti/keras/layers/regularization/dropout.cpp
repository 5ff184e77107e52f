#include "tutti/keras/layers/regularization/dropout.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

// In place: a recorded function knows the generator of such a call alone.
Tensor normal_like(const Tensor& x) { return at::empty_like(x, x.options().requires_grad(false)).normal_(); }

// What draws nothing outside of training, and x keeps its shape.
class NoiseImpl : public LayerImpl {
 public:
  using LayerImpl::LayerImpl;

  Tensor call(const Tensor& x, const CallOptions& options) const final {
    check(x.sizes());
    return options.training && is_active() ? disturb(x) : x;
  }

  Shape compute_output_shape(const Shape& input_shape) const final {
    check(input_shape);
    return input_shape;
  }
  bool supports_masking() const final { return true; }
  InputCast input_cast() const final { return InputCast::numbers; }

 protected:
  void check_rate(double rate, bool may_be_one) const {
    if (!(rate >= 0 && (may_be_one ? rate <= 1 : rate < 1)))
      refuse(str("rate is ", rate, "; it must lie in [0, 1", may_be_one ? ']' : ')'));
  }

 private:
  virtual void check(at::IntArrayRef /*shape*/) const {}
  virtual bool is_active() const = 0;
  virtual Tensor disturb(const Tensor& x) const = 0;
};

// Drops by a mask whose shape is x's but for `noise_shape`.
class MaskImpl : public NoiseImpl {
 public:
  MaskImpl(std::string type, std::string name, double rate, Shape noise_shape)
      : NoiseImpl(std::move(type), std::move(name)), rate_(rate), noise_shape_(std::move(noise_shape)) {}

 protected:
  double rate() const { return rate_; }
  bool has_noise_shape() const { return !noise_shape_.empty(); }

  // 1 where x is kept, else 0
  Tensor kept(const Tensor& x) const {
    Shape shape = x.sizes().vec();
    for (size_t i = 0; i < noise_shape_.size(); ++i)
      if (noise_shape_[i] != kUnknown) shape[i] = noise_shape_[i];
    return x.new_empty(shape).bernoulli_(1 - rate_);
  }

 private:
  bool is_active() const override { return rate_ > 0; }

  void check(at::IntArrayRef shape) const override {
    bool fits = noise_shape_.empty() || noise_shape_.size() == shape.size();
    for (size_t i = 0; fits && i < noise_shape_.size(); ++i)
      fits = noise_shape_[i] == kUnknown || noise_shape_[i] == 1 || shape[i] == kUnknown || noise_shape_[i] == shape[i];
    if (!fits)
      refuse(str("the input has shape ", to_string(shape), "; noise_shape ", to_string(noise_shape_),
                 " cannot be repeated to it"));
  }

  double rate_;
  Shape noise_shape_;
};

class DropoutImpl : public MaskImpl {
 public:
  DropoutImpl(std::string type, std::string name, double rate, Shape noise_shape = {})
      : MaskImpl(std::move(type), std::move(name), rate, std::move(noise_shape)) {
    check_rate(rate, /*may_be_one=*/true);
  }

 private:
  Tensor disturb(const Tensor& x) const override {
    if (!has_noise_shape() || rate() == 1) return at::dropout(x, rate(), /*train=*/true);
    return x * kept(x).div_(1 - rate());
  }
};

class AlphaDropoutImpl : public MaskImpl {
 public:
  explicit AlphaDropoutImpl(const AlphaDropoutOptions& options)
      : MaskImpl("AlphaDropout", options.name, options.rate, options.noise_shape) {
    check_rate(rate(), /*may_be_one=*/false);
  }

 private:
  // Source: Klambauer et al., Self-normalizing neural networks, 2017.
  Tensor disturb(const Tensor& x) const override {
    constexpr double kLowest = -1.6732632423543772 * 1.0507009873554805;  // -alpha * scale of selu
    const double scale = 1 / std::sqrt((1 - rate()) * (1 + rate() * kLowest * kLowest));
    const Tensor kept_elements = kept(x);
    return scale * (x * kept_elements + kLowest * (1 - kept_elements)) - scale * kLowest * rate();
  }
};

class GaussianDropoutImpl : public NoiseImpl {
 public:
  explicit GaussianDropoutImpl(const GaussianDropoutOptions& options)
      : NoiseImpl("GaussianDropout", options.name), rate_(options.rate) {
    check_rate(rate_, /*may_be_one=*/false);
  }

 private:
  bool is_active() const override { return rate_ > 0; }
  Tensor disturb(const Tensor& x) const override {
    return x * normal_like(x).mul_(std::sqrt(rate_ / (1 - rate_))).add_(1);
  }

  double rate_;
};

class GaussianNoiseImpl : public NoiseImpl {
 public:
  explicit GaussianNoiseImpl(const GaussianNoiseOptions& options)
      : NoiseImpl("GaussianNoise", options.name), stddev_(options.stddev) {
    if (!(stddev_ >= 0 && stddev_ <= 1)) refuse(str("stddev is ", stddev_, "; it must lie in [0, 1]"));
  }

 private:
  bool is_active() const override { return stddev_ > 0; }
  Tensor disturb(const Tensor& x) const override { return x + normal_like(x).mul_(stddev_); }

  double stddev_;
};

template <size_t Rank>
Shape channels_only(DataFormat format) {
  Shape noise_shape(Rank + 2, 1);
  noise_shape.front() = noise_shape[format == DataFormat::channels_first ? 1 : Rank + 1] = kUnknown;
  return noise_shape;
}

}  // namespace

Dropout::Dropout(const DropoutOptions& options)
    : Layer(std::make_shared<DropoutImpl>("Dropout", options.name, options.rate, options.noise_shape), options) {}

template <size_t Rank>
SpatialDropout<Rank>::SpatialDropout(const SpatialDropoutOptions& options)
    : Layer(std::make_shared<DropoutImpl>(str("SpatialDropout", Rank, 'D'), options.name, options.rate,
                                          channels_only<Rank>(options.data_format)),
            options) {}

AlphaDropout::AlphaDropout(const AlphaDropoutOptions& options)
    : Layer(std::make_shared<AlphaDropoutImpl>(options), options) {}

GaussianDropout::GaussianDropout(const GaussianDropoutOptions& options)
    : Layer(std::make_shared<GaussianDropoutImpl>(options), options) {}

GaussianNoise::GaussianNoise(const GaussianNoiseOptions& options)
    : Layer(std::make_shared<GaussianNoiseImpl>(options), options) {}

template class SpatialDropout<1>;
template class SpatialDropout<2>;
template class SpatialDropout<3>;

}  // namespace tutti::keras::layers
