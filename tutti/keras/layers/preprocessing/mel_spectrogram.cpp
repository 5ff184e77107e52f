#include "tutti/keras/layers/preprocessing/mel_spectrogram.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stft.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"

namespace tutti::keras::layers {
namespace {

double mel(double hertz) { return 1127 * std::log(1 + hertz / 700); }

// The weight of each frequency in each band, [bands, frequencies], row after row. The lowest frequency, 0, has none.
std::vector<double> mel_weights(const MelSpectrogramOptions& options, double max_freq) {
  const int64_t frequencies = options.fft_length / 2 + 1;
  const double lowest = mel(options.min_freq),
               width = (mel(max_freq) - lowest) / static_cast<double>(options.num_mel_bins + 1);
  std::vector<double> weights;
  for (int64_t band = 0; band < options.num_mel_bins; ++band)
    for (int64_t i = 0; i < frequencies; ++i) {
      const double hertz = options.sampling_rate / 2 * static_cast<double>(i) / static_cast<double>(frequencies - 1);
      const double position = (mel(hertz) - lowest) / width - static_cast<double>(band);  // 0, 1, 2: edge, middle, edge
      weights.push_back(i == 0 ? 0 : std::max(0.0, std::min(position, 2 - position)));
    }
  return weights;
}

class MelSpectrogramImpl : public LayerImpl {
 public:
  explicit MelSpectrogramImpl(const MelSpectrogramOptions& options)
      : LayerImpl("MelSpectrogram", options.name),
        options_(options),
        sequence_length_(options.sequence_length.value_or(options.fft_length)) {
    if (options_.fft_length < 2 || options_.sequence_stride < 1 || options_.num_mel_bins < 1)
      refuse(tutti::str("fft_length is ", options_.fft_length, ", sequence_stride ", options_.sequence_stride,
                        ", num_mel_bins ", options_.num_mel_bins, "; they must be at least 2, 1 and 1"));
    if (sequence_length_ < 1 || sequence_length_ > options_.fft_length)
      refuse(tutti::str("sequence_length is ", sequence_length_, ", fft_length ", options_.fft_length,
                        "; sequence_length must lie in [1, fft_length]"));
    const double max_freq = options_.max_freq.value_or(std::floor(options_.sampling_rate / 2));
    if (!(options_.min_freq >= 0 && options_.min_freq < max_freq))
      refuse(tutti::str("min_freq is ", options_.min_freq, ", max_freq ", max_freq,
                        "; min_freq must be less, and not negative"));
    window_ = window_values(options_.window, sequence_length_, /*periodic=*/true, name());
    weights_ = mel_weights(options_, max_freq);
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    const Shape shape = compute_output_shape(x.sizes().vec());
    if (x.numel() == 0) return floating(x).sum() + at::zeros(shape, floating(x).options());
    const at::ScalarType dtype = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const Tensor bands = at::matmul(weights(x.options().dtype(dtype)), powers(x.to(dtype)));
    return (options_.power_to_db ? decibels(bands) : bands).to(floating(x).scalar_type());
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    if (input_shape.size() != 1 && input_shape.size() != 2)
      refuse(tutti::str("the input has shape ", to_string(input_shape), "; it must be [batch, samples] or [samples]"));
    Shape shape = input_shape;
    const int64_t samples = input_shape.back();
    if (samples != kUnknown && samples <= options_.fft_length / 2)
      refuse(tutti::str("the input has shape ", to_string(input_shape), "; more than ", options_.fft_length / 2,
                        " samples are required, half of fft_length"));
    shape.back() = samples == kUnknown ? kUnknown : 1 + (samples - options_.fft_length % 2) / options_.sequence_stride;
    shape.insert(shape.end() - 1, options_.num_mel_bins);
    return shape;
  }

  InputCast input_cast() const override { return InputCast::numbers; }

 private:
  static Tensor as_tensor(const std::vector<double>& values, at::IntArrayRef sizes, const at::TensorOptions& options) {
    return at::from_blob(const_cast<double*>(values.data()), sizes, at::kDouble)  // which is only read
        .to(options.requires_grad(false), /*non_blocking=*/false, /*copy=*/true);
  }

  Tensor weights(const at::TensorOptions& options) const {
    return as_tensor(weights_, {options_.num_mel_bins, options_.fft_length / 2 + 1}, options);
  }

  // [..., frequencies, frames]
  Tensor powers(const Tensor& x) const {
    const int64_t length = window_.empty() ? options_.fft_length : sequence_length_;
    const Tensor window = window_.empty() ? x.new_ones({length}) : as_tensor(window_, {length}, x.options());
    const Tensor spectrum = at::stft(x, options_.fft_length, options_.sequence_stride, length, window, /*center=*/true,
                                     "reflect", /*normalized=*/false, /*onesided=*/true, /*return_complex=*/true);
    return spectrum.abs().pow(options_.mag_exp);
  }

  Tensor decibels(const Tensor& bands) const {
    const double reference = 10 * std::log10(std::max(std::abs(options_.ref_power), options_.min_power));
    const Tensor all = 10 * bands.clamp_min(options_.min_power).log10() - reference;
    return at::maximum(all, all.max() - options_.top_db);
  }

  MelSpectrogramOptions options_;
  int64_t sequence_length_;
  std::vector<double> window_;
  std::vector<double> weights_;
};

}  // namespace

MelSpectrogram::MelSpectrogram(const MelSpectrogramOptions& options)
    : Layer(std::make_shared<MelSpectrogramImpl>(options)) {}

}  // namespace tutti::keras::layers
