// Numbers of expected values from NumPy and SciPy.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/preprocessing/mel_spectrogram.h"
#include "tutti/keras/layers/preprocessing/stft_spectrogram.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

Tensor signal(int64_t samples) { return (at::arange(1, samples + 1, at::kDouble) * 0.8).sin().to(at::kFloat); }

bool are(const Tensor& values, const std::vector<double>& expected) {
  return at::allclose(values.flatten(), at::tensor(expected, at::kFloat), 1e-4, 2e-5);
}

STFTSpectrogramOptions of_hamming(SpectrogramMode mode) {
  return {.mode = mode, .frame_length = 4, .frame_step = 3, .fft_length = 8, .window = WindowFunction::hamming};
}

TEST(STFTSpectrogram, GivesKerassNumbers) {
  const Tensor x = signal(10).view({1, 10, 1});
  const auto frame = [&](SpectrogramMode mode, int64_t index) {
    return STFTSpectrogram(of_hamming(mode))(x)[0][index];
  };
  EXPECT_TRUE(
      are(frame(SpectrogramMode::magnitude, 1), {1.283292233, 1.162913859, 0.849266328, 0.447552747, 0.126485823}));
  EXPECT_TRUE(
      are(frame(SpectrogramMode::real, 2), {0.666341366, -0.039285575, -0.604331393, -0.05297065, 0.357808969}));
  EXPECT_TRUE(are(frame(SpectrogramMode::imag, 2), {0, -0.667285955, -0.009676809, 0.449120605, 0}));
  EXPECT_TRUE(at::allclose(frame(SpectrogramMode::stft, 2),
                           at::cat({frame(SpectrogramMode::real, 2), frame(SpectrogramMode::imag, 2)})));
  EXPECT_TRUE(at::allclose(frame(SpectrogramMode::angle, 2),
                           frame(SpectrogramMode::imag, 2).atan2(frame(SpectrogramMode::real, 2))));
  const STFTSpectrogram psd({.mode = SpectrogramMode::psd,
                             .frame_length = 4,
                             .frame_step = 3,
                             .fft_length = 8,
                             .periodic = true,
                             .scaling = WindowScaling::spectrum,
                             .padding = Padding::same});
  EXPECT_TRUE(are(psd(x)[0][0], {0.719089787, 1.11315598, 0.499793071, 0.128703975, 0.022977098}));
  EXPECT_TRUE(are(psd(x)[0][3], {0.061176859, 0.122353718, 0.122353718, 0.122353718, 0.061176859}));
  const STFTSpectrogram log({.frame_length = 4, .frame_step = 3, .fft_length = 8, .window = WindowFunction::none});
  EXPECT_TRUE(are(log(x)[0][0], {0.847591559, 0.686321757, 0.057114341, -3.432932268, -0.794914577}));
  const STFTSpectrogram given({.frame_length = 4,
                               .frame_step = 3,
                               .fft_length = 8,
                               .window = std::vector<double>(4, 1),
                               .scaling = WindowScaling::none});
  EXPECT_TRUE(at::allclose(given(x), log(x)));
}

TEST(STFTSpectrogram, TreatsEachChannelAlikeAndPutsItWhereItIsAsked) {
  const Tensor x = at::randn({2, 20, 3});
  auto options = of_hamming(SpectrogramMode::log);
  const auto shaped = [&](DataFormat format, bool expand_dims) {
    options.data_format = format;
    options.expand_dims = expand_dims;
    const STFTSpectrogram layer(options);
    const Tensor input = format == DataFormat::channels_last ? x : x.mT();
    const Tensor y = layer(input);
    EXPECT_EQ(y.sizes(), layer.compute_output_shape(input.sizes().vec()));
    return y;
  };
  std::vector<Tensor> channels;
  for (int64_t i = 0; i < 3; ++i) channels.push_back(STFTSpectrogram(options)(x.narrow(2, i, 1)));
  const Tensor joined = at::cat(channels, 2), apart = at::stack(channels, 3);
  EXPECT_TRUE(at::allclose(shaped(DataFormat::channels_last, false), joined));
  EXPECT_TRUE(at::allclose(shaped(DataFormat::channels_first, false), joined.mT()));
  EXPECT_TRUE(at::allclose(shaped(DataFormat::channels_last, true), apart));
  EXPECT_TRUE(at::allclose(shaped(DataFormat::channels_first, true), apart.permute({0, 3, 1, 2})));
  EXPECT_EQ(STFTSpectrogram().compute_output_shape({3, 160000, 1}), (Shape{3, 1249, 129}));
}

TEST(STFTSpectrogram, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { STFTSpectrogram({.frame_length = 4, .frame_step = 5}); }),
              HasSubstr("frame_length is 4, frame_step 5; the step must be positive and not greater"));
  EXPECT_THAT(error_of([] { STFTSpectrogram({.frame_length = 9, .fft_length = 8}); }), HasSubstr("fft_length is 8"));
  EXPECT_THAT(error_of([] { STFTSpectrogram({.frame_length = 4, .window = std::vector<double>(3, 1)}); }),
              HasSubstr("stft_spectrogram: window has 3 values; it must have 4"));
  EXPECT_THAT(error_of([] { STFTSpectrogram()(at::zeros({2, 400})); }), HasSubstr("[batch, samples, channels]"));
}

TEST(MelSpectrogram, GivesKerassNumbers) {
  const MelSpectrogram mel({.fft_length = 16,
                            .sequence_stride = 8,
                            .sequence_length = 12,
                            .sampling_rate = 8000,
                            .num_mel_bins = 3,
                            .min_freq = 100,
                            .max_freq = 3000});
  const Tensor y = mel(signal(40));
  EXPECT_EQ(y.sizes(), at::IntArrayRef({3, 6}));
  EXPECT_TRUE(are(y[0], {9.891590006, 5.984665573, 5.916475725, 5.855538003, 5.805550451, 2.874914663})) << y;
  EXPECT_TRUE(are(y[2], {-0.976866843, 4.968417333, 4.975171777, 4.981110105, 4.985913577, 7.113094516})) << y;
  EXPECT_TRUE(at::allclose(mel(signal(40).view({1, 40})), y.unsqueeze(0)));

  MelSpectrogramOptions options{.fft_length = 16,
                                .sequence_stride = 8,
                                .sampling_rate = 8000,
                                .num_mel_bins = 3,
                                .power_to_db = false,
                                .mag_exp = 1};
  EXPECT_TRUE(are(MelSpectrogram(options)(signal(40)).select(1, 1), {2.394021714, 4.803252279, 0.834052854}));
  options.power_to_db = true;
  options.mag_exp = 2;
  options.ref_power = 2;
  options.top_db = 5;
  EXPECT_TRUE(are(MelSpectrogram(options)(signal(40)).select(1, 0), {8.423697159, 7.242269445, 4.12710322}));
}

TEST(MelSpectrogram, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { MelSpectrogram({.fft_length = 8, .sequence_length = 9}); }),
              HasSubstr("sequence_length is 9, fft_length 8"));
  EXPECT_THAT(error_of([] { MelSpectrogram({.min_freq = 9000}); }), HasSubstr("min_freq is 9000, max_freq 8000"));
  EXPECT_THAT(error_of([] { MelSpectrogram({.fft_length = 8})(at::zeros({4})); }),
              HasSubstr("the input has shape (4,); more than 4 samples are required, half of fft_length"));
}

}  // namespace
}  // namespace tutti::keras::layers
