#pragma once

#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/signal_window.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

// Of the real part a and the imaginary part b of a frequency.
enum class SpectrogramMode {
  log,        // log(max(magnitude, 1e-7))
  magnitude,  // sqrt(max(a^2 + b^2, 1e-7))
  psd,        // a^2 + b^2, twice that between the lowest and the highest frequency
  real,       // a
  imag,       // b
  angle,      // atan2(b, a)
  stft,       // all a, then all b
};

// What a window is divided by.
enum class WindowScaling {
  none,
  density,   // sqrt(sum of squares)
  spectrum,  // sum of absolute values
};

struct STFTSpectrogramOptions {
  SpectrogramMode mode = SpectrogramMode::log;
  int64_t frame_length = 256;              // samples
  std::optional<int64_t> frame_step = {};  // samples between the begins of frames; none: half of frame_length
  std::optional<int64_t> fft_length = {};  // at least frame_length; none: the power of two from there on
  SignalWindow window = WindowFunction::hann;
  bool periodic = false;  // the window function
  WindowScaling scaling = WindowScaling::density;
  Padding padding = Padding::valid;
  bool expand_dims = false;  // the channels get an axis of their own, so that the result is an image
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// The short-time Fourier transform of each channel of a signal, as a convolution. Its kernels are weights, which
// training changes unless set_trainable(false) freezes them.
// Shapes, with F = fft_length / 2 + 1 frequencies, twice as many in mode stft: x [batch, samples, channels] or [batch,
//   channels, samples]; result [batch, frames, channels * F] or [batch, channels * F, frames], with expand_dims [batch,
//   frames, F, channels] or [batch, channels, frames, F]. real_kernel and imag_kernel, as far as the mode needs them,
//   [frame_length, 1, fft_length / 2 + 1].
// TF: tf.keras.layers.STFTSpectrogram
class STFTSpectrogram : public Layer {
 public:
  // Throws: invalid_argument for options that do not fit together.
  explicit STFTSpectrogram(const STFTSpectrogramOptions& options = {});
};

}  // namespace tutti::keras::layers
