#include "tutti/keras/layers/preprocessing/stft_spectrogram.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/from_blob.h>

#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tutti/core/str.h"
#include "tutti/keras/layers/convolutional/convolution_internal.h"

namespace tutti::keras::layers {
namespace {

constexpr double kEpsilon = 1e-7;  // Keras's

// cos or sin of each frequency, times the window: [frame_length, 1, frequencies].
initializers::Initializer fourier_kernel(double (*wave)(double), std::vector<double> window, int64_t fft_length) {
  return {"fourier", [=](Tensor& kernel) {
            std::vector<double> values;
            for (int64_t time = 0; time < kernel.size(0); ++time)
              for (int64_t frequency = 0; frequency < kernel.size(2); ++frequency) {
                const auto turns = static_cast<double>(time * frequency % fft_length) / static_cast<double>(fft_length);
                const double factor = window.empty() ? 1 : window[static_cast<size_t>(time)];
                values.push_back(factor * wave(-2 * std::numbers::pi * turns));
              }
            kernel.copy_(at::from_blob(values.data(), kernel.sizes(), at::kDouble));
          }};
}

void scale(std::vector<double>& window, WindowScaling scaling) {
  double sum = 0;
  for (const double value : window) sum += scaling == WindowScaling::density ? value * value : std::abs(value);
  if (scaling == WindowScaling::density) sum = std::sqrt(sum);
  if (scaling != WindowScaling::none)
    for (double& value : window) value /= sum;
}

class STFTSpectrogramImpl : public LayerImpl {
 public:
  explicit STFTSpectrogramImpl(const STFTSpectrogramOptions& options)
      : LayerImpl("STFTSpectrogram", options.name),
        options_(options),
        fft_length_(options.fft_length.value_or(
            static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(options.frame_length, 1)))))),
        windows_(make_windows(Size1D{options.frame_length},
                              Size1D{options.frame_step.value_or(options.frame_length / 2)}, options.padding)) {
    const int64_t step = windows_.axes[0].stride;
    if (options_.frame_length < 1 || step < 1 || step > options_.frame_length)
      refuse(tutti::str("frame_length is ", options_.frame_length, ", frame_step ", step,
                        "; the step must be positive and not greater than the length"));
    if (fft_length_ < options_.frame_length)
      refuse(tutti::str("fft_length is ", fft_length_, ", frame_length ", options_.frame_length,
                        "; fft_length must be at least as much"));
    check_windows(*this, "frame_length", windows_);
    window_ = window_values(options_.window, options_.frame_length, options_.periodic, name());
    scale(window_, options_.scaling);
  }

  void build(const Shape& input_shape) override {
    LayerImpl::build(input_shape);
    const Shape shape{options_.frame_length, 1, num_bins()};
    if (options_.mode != SpectrogramMode::imag)
      real_ = add_weight("real_kernel", shape, {.initializer = fourier_kernel(std::cos, window_, fft_length_)});
    if (options_.mode != SpectrogramMode::real)
      imag_ = add_weight("imag_kernel", shape, {.initializer = fourier_kernel(std::sin, window_, fft_length_)});
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    (void)compute_output_shape(x.sizes().vec());
    const Tensor result = spectrum(is_last() ? x.mT() : x);  // [batch, channels, frames, frequencies]
    if (options_.expand_dims) return is_last() ? result.permute({0, 2, 3, 1}) : result;
    const Tensor joined = result.permute({0, 2, 1, 3}).flatten(2);  // [batch, frames, channels * frequencies]
    return is_last() ? joined : joined.mT();
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    if (input_shape.size() != 3)
      refuse(tutti::str("the input has shape ", to_string(input_shape), "; it must be ",
                        is_last() ? "[batch, samples, channels]" : "[batch, channels, samples]"));
    const int64_t batch = input_shape[0], samples = input_shape[is_last() ? 1 : 2],
                  channels = input_shape[is_last() ? 2 : 1];
    const int64_t frames = windowed_shape(*this, {batch, samples, channels}, windows_)[1];
    const int64_t frequencies = num_bins() * (options_.mode == SpectrogramMode::stft ? 2 : 1);
    if (options_.expand_dims)
      return is_last() ? Shape{batch, frames, frequencies, channels} : Shape{batch, channels, frames, frequencies};
    const int64_t joined = channels == kUnknown ? kUnknown : channels * frequencies;
    return is_last() ? Shape{batch, frames, joined} : Shape{batch, joined, frames};
  }

  InputCast input_cast() const override { return InputCast::numbers; }

 private:
  bool is_last() const { return options_.data_format == DataFormat::channels_last; }
  int64_t num_bins() const { return fft_length_ / 2 + 1; }

  // Of x [batch, channels, samples]: [batch, channels, frames, frequencies].
  Tensor spectrum(const Tensor& x) const {
    const Tensor signals = x.flatten(0, 1).unsqueeze(-1);
    const auto part = [&](const Tensor& kernel) {
      const Tensor frames = convolve(signals, kernel, {}, windows_, /*groups=*/1);
      return frames.reshape({x.size(0), x.size(1), frames.size(1), frames.size(2)});
    };
    switch (options_.mode) {
      case SpectrogramMode::real: return part(real_);
      case SpectrogramMode::imag: return part(imag_);
      case SpectrogramMode::angle: return at::atan2(part(imag_), part(real_));
      case SpectrogramMode::stft: return at::cat({part(real_), part(imag_)}, -1);
      default: return of_power(part(real_).square() + part(imag_).square());
    }
  }

  Tensor of_power(const Tensor& power) const {
    if (options_.mode == SpectrogramMode::psd)
      return num_bins() < 3 ? power : power + at::constant_pad_nd(power.narrow(-1, 1, num_bins() - 2), {1, 1});
    const Tensor magnitude = power.clamp_min(kEpsilon).sqrt();
    return options_.mode == SpectrogramMode::log ? magnitude.clamp_min(kEpsilon).log() : magnitude;
  }

  STFTSpectrogramOptions options_;
  int64_t fft_length_;
  Windows windows_;
  std::vector<double> window_;  // scaled; none: all are 1
  Tensor real_, imag_;
};

}  // namespace

STFTSpectrogram::STFTSpectrogram(const STFTSpectrogramOptions& options)
    : Layer(std::make_shared<STFTSpectrogramImpl>(options)) {}

}  // namespace tutti::keras::layers
