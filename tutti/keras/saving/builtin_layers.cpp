#include "tutti/keras/saving/builtin_layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/activations/activation.h"
#include "tutti/keras/layers/activations/relu.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/convolutional/conv_transpose.h"
#include "tutti/keras/layers/convolutional/depthwise_conv.h"
#include "tutti/keras/layers/convolutional/separable_conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/einsum_dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/layers/core/lambda.h"
#include "tutti/keras/layers/core/masking.h"
#include "tutti/keras/layers/merging/concatenate.h"
#include "tutti/keras/layers/merging/dot.h"
#include "tutti/keras/layers/merging/merge.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/normalization/group_normalization.h"
#include "tutti/keras/layers/normalization/layer_normalization.h"
#include "tutti/keras/layers/normalization/spectral_normalization.h"
#include "tutti/keras/layers/pooling/adaptive_pooling.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/regularization/activity_regularization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/cropping.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/layers/reshaping/reshape.h"
#include "tutti/keras/layers/reshaping/up_sampling.h"
#include "tutti/keras/saving/builtin_layer_internal.h"

namespace tutti::keras {
namespace {

void list_options(LayerConfig& config, InputLayerOptions& options) {
  config.require({{"sparse", "false"}, {"ragged", "false"}, {"optional", "false"}});
  Shape shape = options.shape;
  shape.insert(shape.begin(), options.batch);
  config.option("batch_shape", shape);
  if (shape.empty()) config.refuse("has a batch_shape without axes");
  options.batch = shape[0];
  options.shape.assign(shape.begin() + 1, shape.end());
}

void list_options(LayerConfig& config, layers::DenseOptions& options) {
  config.option("units", options.units);
  config.option("activation", options.activation);
  config.option("use_bias", options.use_bias);
  list_kernel_and_bias(config, options);
  config.option("activity_regularizer", options.activity_regularizer);
  list_kernel_and_bias_constraints(config, options);
}

void list_options(LayerConfig& config, layers::EmbeddingOptions& options) {
  config.option("input_dim", options.input_dim);
  config.option("output_dim", options.output_dim);
  config.option("embeddings_initializer", options.embeddings_initializer);
  config.option("embeddings_regularizer", options.embeddings_regularizer);
  config.option("mask_zero", options.mask_zero);
}

void list_options(LayerConfig& config, activations::Activation& activation) { config.option("activation", activation); }

void list_options(LayerConfig& config, layers::ReLUOptions& options) {
  std::optional<double> max_value = options.max_value;
  if (std::isinf(*max_value)) max_value.reset();
  config.option("max_value", max_value);
  options.max_value = max_value.value_or(std::numeric_limits<double>::infinity());
  config.option("negative_slope", options.negative_slope);
  config.option("threshold", options.threshold);
}

void list_options(LayerConfig& config, layers::PReLUOptions& options) {
  config.option("alpha_initializer", options.alpha_initializer);
  config.option("alpha_regularizer", options.alpha_regularizer);
  config.option("alpha_constraint", options.alpha_constraint);
  if (config.is_written() || config.has("shared_axes")) config.integers("shared_axes", options.shared_axes);
}

void list_options(LayerConfig& config, layers::SoftmaxOptions& options) { config.option("axis", options.axis); }

void list_noise_shape(LayerConfig& config, Shape& value) {
  if (config.is_written() ? !value.empty() : config.has("noise_shape")) config.option("noise_shape", value);
}

void list_options(LayerConfig& config, layers::DropoutOptions& options) {
  config.option("rate", options.rate);
  list_noise_shape(config, options.noise_shape);
}

void list_options(LayerConfig& config, layers::FlattenOptions& options) {
  list_data_format(config, options.data_format);
}

void list_options(LayerConfig& config, layers::ReshapeOptions& options) {
  config.integers("target_shape", options.target_shape);
}

template <class Options>
void list_windows(LayerConfig& config, Options& options) {
  config.option("kernel_size", options.kernel_size);
  config.option("strides", options.strides);
  list_padding(config, options.padding);
  list_data_format(config, options.data_format);
  config.option("dilation_rate", options.dilation_rate);
  config.option("activation", options.activation);
  config.option("use_bias", options.use_bias);
  config.option("activity_regularizer", options.activity_regularizer);
}

template <size_t Rank>
void list_options(LayerConfig& config, layers::ConvOptions<Rank>& options) {
  config.option("filters", options.filters);
  config.option("groups", options.groups);
  list_windows(config, options);
  list_kernel_and_bias(config, options);
  list_kernel_and_bias_constraints(config, options);
}

template <size_t Rank>
void list_options(LayerConfig& config, layers::ConvTransposeOptions<Rank>& options) {
  config.option("filters", options.filters);
  config.option("output_padding", options.output_padding);
  list_windows(config, options);
  list_kernel_and_bias(config, options);
  list_kernel_and_bias_constraints(config, options);
}

// Of the kernel for each channel alone, and the bias.
template <class Options>
void list_depthwise(LayerConfig& config, Options& options) {
  config.option("depth_multiplier", options.depth_multiplier);
  list_windows(config, options);
  config.option("depthwise_initializer", options.depthwise_initializer);
  config.option("depthwise_regularizer", options.depthwise_regularizer);
  config.option("depthwise_constraint", options.depthwise_constraint);
  list_bias(config, options);
  config.option("bias_constraint", options.bias_constraint);
}

template <size_t Rank>
void list_options(LayerConfig& config, layers::DepthwiseConvOptions<Rank>& options) {
  list_depthwise(config, options);
}

template <size_t Rank>
void list_options(LayerConfig& config, layers::SeparableConvOptions<Rank>& options) {
  config.option("filters", options.filters);
  list_depthwise(config, options);
  config.option("pointwise_initializer", options.pointwise_initializer);
  config.option("pointwise_regularizer", options.pointwise_regularizer);
  config.option("pointwise_constraint", options.pointwise_constraint);
}

template <size_t Rank>
void list_options(LayerConfig& config, layers::PoolingOptions<Rank>& options) {
  if (options.strides == layers::Size<Rank>{}) options.strides = options.pool_size;
  config.option("pool_size", options.pool_size);
  config.option("strides", options.strides);
  list_padding(config, options.padding);
  list_data_format(config, options.data_format);
}

void list_options(LayerConfig& config, layers::GlobalPoolingOptions& options) {
  list_data_format(config, options.data_format);
  config.option("keepdims", options.keepdims);
}

template <class Options>
void list_gamma_and_beta(LayerConfig& config, Options& options) {
  config.option("epsilon", options.epsilon);
  config.option("center", options.center);
  config.option("scale", options.scale);
  config.option("beta_initializer", options.beta_initializer);
  config.option("gamma_initializer", options.gamma_initializer);
  config.option("beta_regularizer", options.beta_regularizer);
  config.option("gamma_regularizer", options.gamma_regularizer);
  config.option("beta_constraint", options.beta_constraint);
  config.option("gamma_constraint", options.gamma_constraint);
}

void list_options(LayerConfig& config, layers::BatchNormalizationOptions& options) {
  config.require({{"renorm", "false"}});
  config.skip({"renorm_clipping", "renorm_momentum"});
  config.option("axis", options.axis);
  config.option("momentum", options.momentum);
  list_gamma_and_beta(config, options);
  config.option("moving_mean_initializer", options.moving_mean_initializer);
  config.option("moving_variance_initializer", options.moving_variance_initializer);
  if (config.is_written() || config.has("synchronized")) config.option("synchronized", options.synchronized);
}

void list_options(LayerConfig& config, layers::GroupNormalizationOptions& options) {
  config.option("groups", options.groups);
  config.option("axis", options.axis);
  list_gamma_and_beta(config, options);
}

void list_options(LayerConfig& config, layers::LayerNormalizationOptions& options) {
  config.require({{"rms_scaling", "false"}});
  config.axes("axis", options.axis);
  list_gamma_and_beta(config, options);
}

void list_options(LayerConfig& config, layers::RMSNormalizationOptions& options) {
  config.axes("axis", options.axis);
  config.option("epsilon", options.epsilon);
}

// Keras has this option for two and three axes alone.
void list_data_format_of_images(LayerConfig& config, layers::DataFormat& value, bool is_1d) {
  if (!is_1d) return list_data_format(config, value);
  if (value == layers::DataFormat::channels_first)
    config.refuse("has data_format = channels_first, which Keras lacks in one dimension; Permute exchanges the axes");
}

void list_options(LayerConfig& config, layers::EinsumDenseOptions& options) {
  config.option("equation", options.equation);
  config.option("output_shape", options.output_shape);
  config.option("activation", options.activation);
  std::optional<std::string> bias_axes;
  if (!options.bias_axes.empty()) bias_axes = options.bias_axes;
  config.option("bias_axes", bias_axes);
  options.bias_axes = bias_axes.value_or("");
  list_kernel_and_bias(config, options);
  list_kernel_and_bias_constraints(config, options);
}

void list_options(LayerConfig& config, layers::MaskingOptions& options) {
  config.option("mask_value", options.mask_value);
}
void list_options(LayerConfig& config, layers::LeakyReLUOptions& options) {
  config.option("negative_slope", options.negative_slope);
}
void list_options(LayerConfig& config, layers::ELUOptions& options) { config.option("alpha", options.alpha); }
void list_options(LayerConfig& config, layers::PermuteOptions& options) { config.integers("dims", options.dims); }
void list_options(LayerConfig& config, layers::RepeatVectorOptions& options) { config.option("n", options.n); }

void list_options(LayerConfig& config, layers::DotOptions& options) {
  std::vector<int64_t> axes{options.first_axis, options.second_axis};
  config.axes("axes", axes);
  if (axes.size() == 1) axes.push_back(axes[0]);
  if (axes.size() != 2) config.refuse(str("has ", axes.size(), " axes; 2 are expected"));
  options.first_axis = axes[0];
  options.second_axis = axes[1];
  config.option("normalize", options.normalize);
}

template <size_t Rank>
void list_options(LayerConfig& config, layers::UpSamplingOptions<Rank>& options) {
  std::vector<int64_t> size(options.size.begin(), options.size.end());
  config.axes("size", size);
  if (size.size() != Rank) config.refuse(str("has a size of ", size.size(), " numbers; ", Rank, " are expected"));
  std::ranges::copy(size, options.size.begin());
  list_data_format_of_images(config, options.data_format, Rank == 1);
  using enum layers::Interpolation;
  if (Rank == 2)
    config.option("interpolation", options.interpolation, {{"nearest", nearest}, {"bilinear", bilinear}});
  else if (options.interpolation != nearest)
    config.refuse("has an interpolation, which Keras has in two dimensions alone");
}

// Of one axis [1, 2], of several [[1, 2], [3, 4]].
template <size_t Rank>
void list_margins(LayerConfig& config, const std::string& name, layers::AllMargins<Rank>& value) {
  std::array<std::array<int64_t, 2>, Rank> ends;
  for (size_t axis = 0; axis < Rank; ++axis) ends[axis] = {value[axis].front, value[axis].back};
  if constexpr (Rank == 1)
    config.option(name, ends[0]);
  else
    config.option(name, ends);
  for (size_t axis = 0; axis < Rank; ++axis) value[axis] = {.front = ends[axis][0], .back = ends[axis][1]};
}

template <size_t Rank>
void list_options(LayerConfig& config, layers::CroppingOptions<Rank>& options) {
  list_margins<Rank>(config, "cropping", options.cropping);
  list_data_format_of_images(config, options.data_format, Rank == 1);
}

template <size_t Rank>
void list_options(LayerConfig& config, layers::ZeroPaddingOptions<Rank>& options) {
  list_margins<Rank>(config, "padding", options.padding);
  list_data_format(config, options.data_format);
}

template <size_t Rank>
void list_options(LayerConfig& config, layers::AdaptivePoolingOptions<Rank>& options) {
  config.option("output_size", options.output_size);
  list_data_format(config, options.data_format);
}

template <size_t Rank>
void list_spatial_dropout(LayerConfig& config, layers::SpatialDropoutOptions& options) {
  config.option("rate", options.rate);
  list_data_format_of_images(config, options.data_format, Rank == 1);
}

void list_options(LayerConfig& config, layers::AlphaDropoutOptions& options) {
  config.option("rate", options.rate);
  list_noise_shape(config, options.noise_shape);
}
void list_options(LayerConfig& config, layers::GaussianDropoutOptions& options) { config.option("rate", options.rate); }
void list_options(LayerConfig& config, layers::GaussianNoiseOptions& options) {
  config.option("stddev", options.stddev);
}
void list_options(LayerConfig& config, layers::ActivityRegularizationOptions& options) {
  config.option("l1", options.l1);
  config.option("l2", options.l2);
}

void list_options(LayerConfig& config, layers::UnitNormalizationOptions& options) { config.axes("axis", options.axis); }
void list_options(LayerConfig& config, layers::SpectralNormalizationOptions& options) {
  config.option("power_iterations", options.power_iterations);
}

void list_options(LayerConfig& config, layers::ConcatenateOptions& options) { config.option("axis", options.axis); }

}  // namespace

const BuiltinLayer* builtin_layer(const std::string& class_name) {
  using namespace layers;
  static const BuiltinLayers others{
      {"Activation", plain<layers::Activation, activations::Activation, list_options>()},
      {"ActivityRegularization", plain<ActivityRegularization, ActivityRegularizationOptions, list_options>()},
      {"AdaptiveAveragePooling1D", plain<AdaptiveAveragePooling1D, AdaptivePoolingOptions<1>, list_options>()},
      {"AdaptiveAveragePooling2D", plain<AdaptiveAveragePooling2D, AdaptivePoolingOptions<2>, list_options>()},
      {"AdaptiveAveragePooling3D", plain<AdaptiveAveragePooling3D, AdaptivePoolingOptions<3>, list_options>()},
      {"AdaptiveMaxPooling1D", plain<AdaptiveMaxPooling1D, AdaptivePoolingOptions<1>, list_options>()},
      {"AdaptiveMaxPooling2D", plain<AdaptiveMaxPooling2D, AdaptivePoolingOptions<2>, list_options>()},
      {"AdaptiveMaxPooling3D", plain<AdaptiveMaxPooling3D, AdaptivePoolingOptions<3>, list_options>()},
      {"Add", plain<Add, MergeOptions, list_no_options>()},
      {"AlphaDropout", plain<AlphaDropout, AlphaDropoutOptions, list_options>()},
      {"Average", plain<Average, MergeOptions, list_no_options>()},
      {"AveragePooling1D", plain<AveragePooling1D, PoolingOptions<1>, list_options>()},
      {"AveragePooling2D", plain<AveragePooling2D, PoolingOptions<2>, list_options>()},
      {"AveragePooling3D", plain<AveragePooling3D, PoolingOptions<3>, list_options>()},
      {"BatchNormalization", plain<BatchNormalization, BatchNormalizationOptions, list_options>()},
      {"Concatenate", plain<Concatenate, ConcatenateOptions, list_options>()},
      {"Conv1D", plain<Conv1D, ConvOptions<1>, list_options>()},
      {"Conv1DTranspose", plain<Conv1DTranspose, ConvTransposeOptions<1>, list_options>()},
      {"Conv2D", plain<Conv2D, ConvOptions<2>, list_options>()},
      {"Conv2DTranspose", plain<Conv2DTranspose, ConvTransposeOptions<2>, list_options>()},
      {"Conv3D", plain<Conv3D, ConvOptions<3>, list_options>()},
      {"Conv3DTranspose", plain<Conv3DTranspose, ConvTransposeOptions<3>, list_options>()},
      {"Cropping1D", plain<Cropping1D, CroppingOptions<1>, list_options>()},
      {"Cropping2D", plain<Cropping2D, CroppingOptions<2>, list_options>()},
      {"Cropping3D", plain<Cropping3D, CroppingOptions<3>, list_options>()},
      {"Dense", plain<Dense, DenseOptions, list_options>()},
      {"DepthwiseConv1D", plain<DepthwiseConv1D, DepthwiseConvOptions<1>, list_options>()},
      {"DepthwiseConv2D", plain<DepthwiseConv2D, DepthwiseConvOptions<2>, list_options>()},
      {"Dot", plain<Dot, DotOptions, list_options>()},
      {"Dropout", plain<Dropout, DropoutOptions, list_options>()},
      {"ELU", plain<ELU, ELUOptions, list_options>()},
      {"EinsumDense", plain<EinsumDense, EinsumDenseOptions, list_options>()},
      {"Embedding", plain<Embedding, EmbeddingOptions, list_options>()},
      {"Flatten", plain<Flatten, FlattenOptions, list_options>()},
      {"GaussianDropout", plain<GaussianDropout, GaussianDropoutOptions, list_options>()},
      {"GaussianNoise", plain<GaussianNoise, GaussianNoiseOptions, list_options>()},
      {"GlobalAveragePooling1D", plain<GlobalAveragePooling1D, GlobalPoolingOptions, list_options>()},
      {"GlobalAveragePooling2D", plain<GlobalAveragePooling2D, GlobalPoolingOptions, list_options>()},
      {"GlobalAveragePooling3D", plain<GlobalAveragePooling3D, GlobalPoolingOptions, list_options>()},
      {"GlobalMaxPooling1D", plain<GlobalMaxPooling1D, GlobalPoolingOptions, list_options>()},
      {"GlobalMaxPooling2D", plain<GlobalMaxPooling2D, GlobalPoolingOptions, list_options>()},
      {"GlobalMaxPooling3D", plain<GlobalMaxPooling3D, GlobalPoolingOptions, list_options>()},
      {"GroupNormalization", plain<GroupNormalization, GroupNormalizationOptions, list_options>()},
      {"Identity", plain<Identity, IdentityOptions, list_no_options>()},
      {"InputLayer", plain<InputLayer, InputLayerOptions, list_options>()},
      {"LayerNormalization", plain<LayerNormalization, LayerNormalizationOptions, list_options>()},
      {"LeakyReLU", plain<LeakyReLU, LeakyReLUOptions, list_options>()},
      {"Masking", plain<Masking, MaskingOptions, list_options>()},
      {"MaxPooling1D", plain<MaxPooling1D, PoolingOptions<1>, list_options>()},
      {"MaxPooling2D", plain<MaxPooling2D, PoolingOptions<2>, list_options>()},
      {"MaxPooling3D", plain<MaxPooling3D, PoolingOptions<3>, list_options>()},
      {"Maximum", plain<Maximum, MergeOptions, list_no_options>()},
      {"Minimum", plain<Minimum, MergeOptions, list_no_options>()},
      {"Multiply", plain<Multiply, MergeOptions, list_no_options>()},
      {"PReLU", plain<PReLU, PReLUOptions, list_options>()},
      {"Permute", plain<Permute, PermuteOptions, list_options>()},
      {"RMSNormalization", plain<RMSNormalization, RMSNormalizationOptions, list_options>()},
      {"ReLU", plain<ReLU, ReLUOptions, list_options>()},
      {"RepeatVector", plain<RepeatVector, RepeatVectorOptions, list_options>()},
      {"Reshape", plain<Reshape, ReshapeOptions, list_options>()},
      {"SeparableConv1D", plain<SeparableConv1D, SeparableConvOptions<1>, list_options>()},
      {"SeparableConv2D", plain<SeparableConv2D, SeparableConvOptions<2>, list_options>()},
      {"Softmax", plain<Softmax, SoftmaxOptions, list_options>()},
      {"SpatialDropout1D", plain<SpatialDropout1D, SpatialDropoutOptions, list_spatial_dropout<1>>()},
      {"SpatialDropout2D", plain<SpatialDropout2D, SpatialDropoutOptions, list_spatial_dropout<2>>()},
      {"SpatialDropout3D", plain<SpatialDropout3D, SpatialDropoutOptions, list_spatial_dropout<3>>()},
      {"SpectralNormalization", wrapper<SpectralNormalization, SpectralNormalizationOptions, list_options>()},
      {"Subtract", plain<Subtract, MergeOptions, list_no_options>()},
      {"UnitNormalization", plain<UnitNormalization, UnitNormalizationOptions, list_options>()},
      {"UpSampling1D", plain<UpSampling1D, UpSamplingOptions<1>, list_options>()},
      {"UpSampling2D", plain<UpSampling2D, UpSamplingOptions<2>, list_options>()},
      {"UpSampling3D", plain<UpSampling3D, UpSamplingOptions<3>, list_options>()},
      {"ZeroPadding1D", plain<ZeroPadding1D, ZeroPaddingOptions<1>, list_options>()},
      {"ZeroPadding2D", plain<ZeroPadding2D, ZeroPaddingOptions<2>, list_options>()},
      {"ZeroPadding3D", plain<ZeroPadding3D, ZeroPaddingOptions<3>, list_options>()},
  };
  for (const BuiltinLayers* const classes : {&others, &sequence_layers(), &preprocessing_layers()})
    if (const auto found = classes->find(class_name); found != classes->end()) return &found->second;
  return nullptr;
}

}  // namespace tutti::keras
