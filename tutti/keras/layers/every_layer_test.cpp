// What holds of every layer of one input.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/three_replicas.h"
#include "tutti/distribute/gradients.h"
#include "tutti/keras/layers/activations/activation.h"
#include "tutti/keras/layers/activations/relu.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/convolutional/conv_transpose.h"
#include "tutti/keras/layers/convolutional/depthwise_conv.h"
#include "tutti/keras/layers/convolutional/separable_conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/lambda.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/normalization/group_normalization.h"
#include "tutti/keras/layers/normalization/layer_normalization.h"
#include "tutti/keras/layers/pooling/adaptive_pooling.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/preprocessing/mel_spectrogram.h"
#include "tutti/keras/layers/preprocessing/stft_spectrogram.h"
#include "tutti/keras/layers/recurrent/conv_lstm.h"
#include "tutti/keras/layers/regularization/activity_regularization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/cropping.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/layers/reshaping/reshape.h"
#include "tutti/keras/layers/reshaping/up_sampling.h"

namespace tutti::keras::layers {
namespace {

struct Case {
  std::string name;
  std::function<Layer()> make;
  std::vector<Shape> samples;  // shapes of a sample: odd and even extents
  bool is_random = false;      // in training

  friend std::ostream& operator<<(std::ostream& out, const Case& test) { return out << test.name; }
};

template <class LayerType, class... Options>
std::function<Layer()> make(const Options&... options) {
  return [=] { return Layer(LayerType(options...)); };
}

const Shape kVector{6};
const std::vector<Shape> kVectors{kVector};
const std::vector<Shape> kSequences{{7, 4}, {8, 4}};
const std::vector<Shape> kImages{{7, 6, 4}, {8, 5, 4}};
const std::vector<Shape> kVolumes{{5, 4, 6, 2}, {4, 7, 5, 2}};

// The same with the channels first.
constexpr auto kFirst = DataFormat::channels_first;
const std::vector<Shape> kSequencesFirst{{4, 7}, {4, 8}};
const std::vector<Shape> kImagesFirst{{4, 7, 6}, {4, 8, 5}};
const std::vector<Shape> kVolumesFirst{{2, 5, 4, 6}, {2, 4, 7, 5}};

std::vector<Case> cases_with_channels_first() {
  constexpr auto same = Padding::same;
  return {
      {"Conv1DFirst", make<Conv1D>(Conv1DOptions{.filters = 3, .padding = same, .data_format = kFirst}),
       kSequencesFirst},
      {"Conv2DFirst", make<Conv2D>(Conv2DOptions{.filters = 4, .strides = {2, 1}, .data_format = kFirst, .groups = 2}),
       kImagesFirst},
      {"Conv3DFirst", make<Conv3D>(Conv3DOptions{.filters = 3, .data_format = kFirst}), kVolumesFirst},
      {"Conv1DTransposeFirst",
       make<Conv1DTranspose>(Conv1DTransposeOptions{.filters = 3, .strides = {2}, .data_format = kFirst}),
       kSequencesFirst},
      {"Conv2DTransposeFirst",
       make<Conv2DTranspose>(
           Conv2DTransposeOptions{.filters = 3, .strides = {2, 3}, .padding = same, .data_format = kFirst}),
       kImagesFirst},
      {"Conv3DTransposeFirst", make<Conv3DTranspose>(Conv3DTransposeOptions{.filters = 2, .data_format = kFirst}),
       kVolumesFirst},
      {"DepthwiseConv2DFirst", make<DepthwiseConv2D>(DepthwiseConv2DOptions{.data_format = kFirst}), kImagesFirst},
      {"SeparableConv1DFirst", make<SeparableConv1D>(SeparableConv1DOptions{.filters = 3, .data_format = kFirst}),
       kSequencesFirst},
      {"MaxPooling2DFirst", make<MaxPooling2D>(MaxPooling2DOptions{.padding = same, .data_format = kFirst}),
       kImagesFirst},
      {"AveragePooling3DFirst", make<AveragePooling3D>(AveragePooling3DOptions{.data_format = kFirst}), kVolumesFirst},
      {"GlobalMaxPooling1DFirst", make<GlobalMaxPooling1D>(GlobalPoolingOptions{.data_format = kFirst}),
       kSequencesFirst},
      {"GlobalAveragePooling2DFirst",
       make<GlobalAveragePooling2D>(GlobalPoolingOptions{.data_format = kFirst, .keepdims = true}), kImagesFirst},
      {"AdaptiveMaxPooling2DFirst",
       make<AdaptiveMaxPooling2D>(AdaptivePoolingOptions<2>{.output_size = {3, 9}, .data_format = kFirst}),
       kImagesFirst},
      {"SpatialDropout2DFirst", make<SpatialDropout2D>(SpatialDropoutOptions{.rate = 0.5, .data_format = kFirst}),
       kImagesFirst, /*is_random=*/true},
      {"ConvLSTM2DFirst",
       make<ConvLSTM2D>(ConvLSTM2DOptions{.filters = 2, .data_format = kFirst}),
       {{3, 4, 7, 6}, {2, 4, 8, 5}}},
      {"STFTSpectrogramFirst",
       make<STFTSpectrogram>(
           STFTSpectrogramOptions{.mode = SpectrogramMode::stft, .frame_length = 6, .data_format = kFirst}),
       {{2, 20}, {1, 21}}},
      {"FlattenFirst", make<Flatten>(FlattenOptions{.data_format = kFirst}), kImagesFirst},
      {"Cropping2DFirst", make<Cropping2D>(CroppingOptions<2>{.cropping = {1, 0, 2, 1}, .data_format = kFirst}),
       kImagesFirst},
      {"ZeroPadding3DFirst", make<ZeroPadding3D>(ZeroPaddingOptions<3>{.data_format = kFirst}), kVolumesFirst},
      {"UpSampling2DFirst", make<UpSampling2D>(UpSamplingOptions<2>{.size = {2, 3}, .data_format = kFirst}),
       kImagesFirst},
  };
}

std::vector<Case> cases() {
  constexpr auto same = Padding::same;
  return {
      {"Dense", make<Dense>(DenseOptions{.units = 3}), {kVector, {2, 6}}},
      {"Conv1D", make<Conv1D>(Conv1DOptions{.filters = 3}), kSequences},
      {"Conv1DSame", make<Conv1D>(Conv1DOptions{.filters = 3, .strides = {2}, .padding = same}), kSequences},
      {"Conv1DCausal", make<Conv1D>(Conv1DOptions{.filters = 3, .padding = Padding::causal, .dilation_rate = {2}}),
       kSequences},
      {"Conv2D", make<Conv2D>(Conv2DOptions{.filters = 4, .strides = {2, 1}, .groups = 2}), kImages},
      {"Conv2DSame", make<Conv2D>(Conv2DOptions{.filters = 3, .kernel_size = {2, 3}, .padding = same}), kImages},
      {"Conv3D", make<Conv3D>(Conv3DOptions{.filters = 3, .kernel_size = {2, 3, 1}}), kVolumes},
      {"Conv3DSame", make<Conv3D>(Conv3DOptions{.filters = 3, .strides = {2, 1, 2}, .padding = same}), kVolumes},
      {"Conv1DTranspose", make<Conv1DTranspose>(Conv1DTransposeOptions{.filters = 3, .strides = {2}}), kSequences},
      {"Conv2DTranspose",
       make<Conv2DTranspose>(Conv2DTransposeOptions{.filters = 3, .strides = {2, 3}, .padding = same}), kImages},
      {"Conv3DTranspose",
       make<Conv3DTranspose>(
           Conv3DTransposeOptions{.filters = 2, .strides = {1, 2, 2}, .output_padding = Size3D{0, 1, 0}}),
       kVolumes},
      {"DepthwiseConv1D", make<DepthwiseConv1D>(DepthwiseConv1DOptions{.depth_multiplier = 2}), kSequences},
      {"DepthwiseConv2D", make<DepthwiseConv2D>(DepthwiseConv2DOptions{.padding = same}), kImages},
      {"SeparableConv1D", make<SeparableConv1D>(SeparableConv1DOptions{.filters = 3}), kSequences},
      {"SeparableConv2D",
       make<SeparableConv2D>(SeparableConv2DOptions{.filters = 3, .strides = {2, 2}, .depth_multiplier = 2}), kImages},
      {"MaxPooling1D", make<MaxPooling1D>(), kSequences},
      {"MaxPooling2D", make<MaxPooling2D>(MaxPooling2DOptions{.padding = same}), kImages},
      {"MaxPooling3D", make<MaxPooling3D>(MaxPooling3DOptions{.strides = {1, 2, 2}}), kVolumes},
      {"AveragePooling1D", make<AveragePooling1D>(AveragePooling1DOptions{.padding = same}), kSequences},
      {"AveragePooling2D", make<AveragePooling2D>(), kImages},
      {"AveragePooling3D", make<AveragePooling3D>(AveragePooling3DOptions{.padding = same}), kVolumes},
      {"GlobalMaxPooling1D", make<GlobalMaxPooling1D>(), kSequences},
      {"GlobalMaxPooling2D", make<GlobalMaxPooling2D>(GlobalPoolingOptions{.keepdims = true}), kImages},
      {"GlobalMaxPooling3D", make<GlobalMaxPooling3D>(), kVolumes},
      {"GlobalAveragePooling1D", make<GlobalAveragePooling1D>(GlobalPoolingOptions{.keepdims = true}), kSequences},
      {"GlobalAveragePooling2D", make<GlobalAveragePooling2D>(), kImages},
      {"GlobalAveragePooling3D", make<GlobalAveragePooling3D>(), kVolumes},
      {"AdaptiveAveragePooling1D", make<AdaptiveAveragePooling1D>(AdaptivePoolingOptions<1>{.output_size = {3}}),
       kSequences},
      {"AdaptiveMaxPooling2D", make<AdaptiveMaxPooling2D>(AdaptivePoolingOptions<2>{.output_size = {3, 9}}), kImages},
      {"AdaptiveAveragePooling3D", make<AdaptiveAveragePooling3D>(AdaptivePoolingOptions<3>{.output_size = {3, 2, 1}}),
       kVolumes},
      {"BatchNormalization", make<BatchNormalization>(), {kVector, {3, 6}, {3, 2, 6}}},
      {"BatchNormalizationAxis1", make<BatchNormalization>(BatchNormalizationOptions{.axis = 1}), kImages},
      {"LayerNormalization", make<LayerNormalization>(), {kVector, {3, 6}}},
      {"LayerNormalizationAxes", make<LayerNormalization>(LayerNormalizationOptions{.axis = {1, 3}}), kImages},
      {"RMSNormalization", make<RMSNormalization>(RMSNormalizationOptions{.axis = {1}}), kSequences},
      {"UnitNormalization", make<UnitNormalization>(), kSequences},
      {"GroupNormalization", make<GroupNormalization>(GroupNormalizationOptions{.groups = 2}), kImages},
      {"InstanceNormalization", make<GroupNormalization>(GroupNormalizationOptions{.groups = -1, .axis = 1}),
       kSequences},
      {"Activation", make<Activation>(activations::gelu), kSequences},
      {"GatedLinearUnit", make<Activation>(activations::glu), kSequences},
      {"Softmax", make<Softmax>(SoftmaxOptions{.axis = 1}), kSequences},
      {"ReLU", make<ReLU>(ReLUOptions{.max_value = 1, .negative_slope = 0.1, .threshold = 0.2}), kVectors},
      {"LeakyReLU", make<LeakyReLU>(), kVectors},
      {"ELU", make<ELU>(ELUOptions{.alpha = 0.5}), kVectors},
      {"PReLU", make<PReLU>(PReLUOptions{.alpha_initializer = initializers::Constant(0.3), .shared_axes = {1}}),
       kSequences},
      {"Dropout", make<Dropout>(DropoutOptions{.rate = 0.5}), kVectors, /*is_random=*/true},
      {"SpatialDropout2D", make<SpatialDropout2D>(SpatialDropoutOptions{.rate = 0.5}), kImages, /*is_random=*/true},
      {"AlphaDropout", make<AlphaDropout>(AlphaDropoutOptions{.rate = 0.5}), kVectors, /*is_random=*/true},
      {"GaussianDropout", make<GaussianDropout>(GaussianDropoutOptions{.rate = 0.5}), kVectors, /*is_random=*/true},
      {"GaussianNoise", make<GaussianNoise>(GaussianNoiseOptions{.stddev = 0.5}), kVectors, /*is_random=*/true},
      {"ActivityRegularization", make<ActivityRegularization>(ActivityRegularizationOptions{.l1 = 0.1}), kVectors},
      {"Flatten", make<Flatten>(), kImages},
      {"Reshape", make<Reshape>(ReshapeOptions{.target_shape = {2, -1}}), {{7, 4}, {8, 5}}},
      {"Permute", make<Permute>(PermuteOptions{.dims = {3, 1, 2}}), kImages},
      {"RepeatVector", make<RepeatVector>(RepeatVectorOptions{.n = 3}), kVectors},
      {"Cropping1D", make<Cropping1D>(), kSequences},
      {"Cropping2D", make<Cropping2D>(CroppingOptions<2>{.cropping = {1, 0, 2, 1}}), kImages},
      {"Cropping3D", make<Cropping3D>(), kVolumes},
      {"ZeroPadding1D", make<ZeroPadding1D>(ZeroPaddingOptions<1>{.padding = {1, 2}}), kSequences},
      {"ZeroPadding2D", make<ZeroPadding2D>(), kImages},
      {"ZeroPadding3D", make<ZeroPadding3D>(), kVolumes},
      {"UpSampling1D", make<UpSampling1D>(), kSequences},
      {"UpSampling2D", make<UpSampling2D>(UpSamplingOptions<2>{.size = {2, 3}}), kImages},
      {"UpSampling2DBilinear", make<UpSampling2D>(UpSamplingOptions<2>{.interpolation = Interpolation::bilinear}),
       kImages},
      {"UpSampling3D", make<UpSampling3D>(), kVolumes},
      {"ConvLSTM1D",
       make<ConvLSTM1D>(ConvLSTM1DOptions{.filters = 3, .strides = {2}, .padding = same}),
       {{3, 7, 4}, {2, 8, 4}}},
      {"ConvLSTM2D",
       make<ConvLSTM2D>(ConvLSTM2DOptions{.filters = 2, .kernel_size = {2, 3}, .return_sequences = true}),
       {{3, 7, 6, 4}, {2, 8, 5, 4}}},
      {"ConvLSTM3D",
       make<ConvLSTM3D>(ConvLSTM3DOptions{.filters = 2, .go_backwards = true}),
       {{3, 5, 4, 6, 2}, {2, 4, 7, 5, 2}}},
      {"STFTSpectrogram",
       make<STFTSpectrogram>(STFTSpectrogramOptions{
           .mode = SpectrogramMode::psd, .frame_length = 6, .padding = same, .expand_dims = true}),
       {{20, 2}, {21, 1}}},
      {"MelSpectrogram",
       make<MelSpectrogram>(MelSpectrogramOptions{
           .fft_length = 16, .sequence_stride = 8, .sequence_length = 12, .sampling_rate = 8000, .num_mel_bins = 4}),
       {{40}, {47}}},
      {"Lambda", make<Lambda>(LambdaOptions{.function = [](const Tensor& x) { return x.sin().sum(-1); }}), kSequences},
      {"Identity", make<Identity>(), kVectors},
  };
}

class EveryLayer : public testing::TestWithParam<Case> {
 protected:
  static Tensor batch(int64_t size, Shape sample, at::ScalarType dtype = at::kFloat) {
    sample.insert(sample.begin(), size);
    return at::randn(sample, dtype);
  }
};

TEST_P(EveryLayer, ReturnsTheShapeThatItComputes) {
  for (const Shape& sample : GetParam().samples) {
    const Layer layer = GetParam().make();
    for (const int64_t size : {3, 1, 0}) {
      const Tensor x = batch(size, sample);
      Shape shape = x.sizes().vec();
      EXPECT_EQ(layer(x).sizes(), layer.compute_output_shape(shape)) << to_string(shape);
      EXPECT_EQ(layer(x, {.training = true}).sizes(), layer.compute_output_shape(shape)) << to_string(shape);
      Shape expected = layer.compute_output_shape(shape);
      shape[0] = expected[0] = kUnknown;
      EXPECT_EQ(layer.compute_output_shape(shape), expected) << to_string(shape);
    }
  }
}

// The slope in a random direction of all weights and x together, by central differences.
TEST_P(EveryLayer, HasTheGradientsOfItsSlopes) {
  for (const Shape& sample : GetParam().samples)
    for (const bool training : {false, true}) {
      if (training && GetParam().is_random) continue;
      const Layer layer = GetParam().make();
      const Tensor x = batch(3, sample, at::kDouble).requires_grad_();
      layer.build(x.sizes().vec());
      layer.module()->to(at::kDouble);
      std::vector<Tensor> variables = layer.trainable_variables();
      variables.push_back(x);
      const Tensor coefficients = at::randn(layer.compute_output_shape(x.sizes().vec()), at::kDouble);
      const auto value = [&] { return (layer(x, {.training = training}) * coefficients).sum(); };
      const std::vector<Tensor> slopes = gradients(value(), variables);

      const c10::NoGradGuard no_grad;
      double expected = 0;
      std::vector<Tensor> direction;
      for (size_t i = 0; i < variables.size(); ++i) {
        direction.push_back(at::randn_like(variables[i]));
        expected += (slopes[i] * direction[i]).sum().item<double>();
      }
      const auto value_at = [&](double step) {
        for (size_t i = 0; i < variables.size(); ++i) variables[i].add_(direction[i], step);
        return value().item<double>();
      };
      constexpr double kStep = 1e-6;
      const double above = value_at(kStep);
      const double below = value_at(-2 * kStep);
      EXPECT_NEAR((above - below) / (2 * kStep), expected, 1e-5 * (1 + std::abs(expected))) << to_string(x.sizes());
    }
}

// Shards of two rows, two and none.
TEST_P(EveryLayer, IsOnReplicasWhatItIsOnOneDevice) {
  const Watchdog watchdog{std::chrono::seconds(60)};
  MirroredStrategy strategy({.devices = configure_logical_cpus(3)});
  const Tensor x = batch(4, GetParam().samples[0]);
  const Layer one = GetParam().make();
  one.build(x.sizes().vec());
  const Layer many = strategy.build([&] {
    const Layer layer = GetParam().make();
    layer.build(x.sizes().vec());
    return layer;
  });
  many.set_weights(one.get_weights());

  const Tensor coefficients = at::randn(one.compute_output_shape(x.sizes().vec()));
  // The gradients to the weights and to x, and the output.
  const auto step = [](const Layer& layer, const Tensor& shard, const Tensor& weights) {
    const Tensor input = shard.clone().requires_grad_();
    const Tensor output = layer(input);
    std::vector<Tensor> variables = layer.trainable_variables();
    variables.push_back(input);
    std::vector<Tensor> results = gradients((output * weights).sum(), variables);
    results.push_back(output.detach());
    return results;
  };
  const auto shards = [](const Tensor& whole) {
    return PerReplica<Tensor>({whole.slice(0, 0, 2), whole.slice(0, 2, 4), whole.slice(0, 4, 4)});
  };
  const std::vector<Tensor> expected = step(one, x, coefficients);
  const auto results =
      strategy.run([&](const Tensor& shard, const Tensor& weights) { return step(many, shard, weights); }, shards(x),
                   shards(coefficients));
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool is_of_samples = i + 2 >= expected.size();
    const Tensor together = is_of_samples ? at::cat({results[0][i], results[1][i], results[2][i]})
                                          : results[0][i] + results[1][i] + results[2][i];
    EXPECT_TRUE(at::allclose(together, expected[i], 1e-4, 1e-4)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryLayer, testing::ValuesIn(cases()), [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(ChannelsFirst, EveryLayer, testing::ValuesIn(cases_with_channels_first()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tutti::keras::layers
