#pragma once

#include <optional>
#include <string>

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/signal_window.h"

namespace tutti::keras::layers {

struct MelSpectrogramOptions {
  int64_t fft_length = 2048;
  int64_t sequence_stride = 512;                // samples between the middles of frames
  std::optional<int64_t> sequence_length = {};  // of the window, at most fft_length, which it is if there is none
  SignalWindow window = WindowFunction::hann;   // periodic
  double sampling_rate = 16000;                 // Hz
  int64_t num_mel_bins = 128;
  double min_freq = 20;                 // Hz
  std::optional<double> max_freq = {};  // Hz; none: half of sampling_rate, rounded down
  bool power_to_db = true;              // 10 log10 of power over ref_power
  double top_db = 80;                   // how far below the largest value of a call the smallest is
  double mag_exp = 2;                   // 1: magnitude, 2: power
  double min_power = 1e-10;             // what lies below counts as this
  double ref_power = 1;
  std::string name = {};
};

// The powers of a signal in bands that are equally wide to the ear, from frame to frame; the signal is continued at its
// ends by its reflection. A frequency of f Hz is 1127 log(1 + f / 700) mel, and a band's weights are a triangle of
// height 1 between the middles of its neighbours.
// Shapes: x [samples] or [batch, samples], more than fft_length / 2 samples; result [num_mel_bins, frames] or [batch,
//   num_mel_bins, frames] with 1 + samples / sequence_stride frames. A floating-point dtype is kept, others become
//   float32. TF: tf.keras.layers.MelSpectrogram; its compute_output_shape tells a frame too many for some lengths.
class MelSpectrogram : public Layer {
 public:
  // Throws: invalid_argument for options that do not fit together.
  explicit MelSpectrogram(const MelSpectrogramOptions& options = {});
};

}  // namespace tutti::keras::layers
