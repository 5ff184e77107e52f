#include "tutti/keras/saving/builtin_layers.h"

#include <any>
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
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/layers/merging/concatenate.h"
#include "tutti/keras/layers/merging/merge.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/normalization/group_normalization.h"
#include "tutti/keras/layers/normalization/layer_normalization.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/preprocessing/normalization.h"
#include "tutti/keras/layers/preprocessing/rescaling.h"
#include "tutti/keras/layers/recurrent/bidirectional.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/simple_rnn.h"
#include "tutti/keras/layers/recurrent/time_distributed.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/layers/reshaping/reshape.h"

namespace tutti::keras {
namespace {

using layers::Layer;
using layers::LayerImpl;

// --- What the options of several classes have.

void list_padding(LayerConfig& config, layers::Padding& value) {
  using enum layers::Padding;
  config.option("padding", value, {{"valid", valid}, {"same", same}, {"causal", causal}});
}

void list_data_format(LayerConfig& config, layers::DataFormat& value) {
  using enum layers::DataFormat;
  config.option("data_format", value, {{"channels_last", channels_last}, {"channels_first", channels_first}});
}

template <class Options>
void list_bias(LayerConfig& config, Options& options) {
  config.option("bias_initializer", options.bias_initializer);
  config.option("bias_regularizer", options.bias_regularizer);
}

template <class Options>
void list_kernel_and_bias(LayerConfig& config, Options& options) {
  config.option("kernel_initializer", options.kernel_initializer);
  config.option("kernel_regularizer", options.kernel_regularizer);
  list_bias(config, options);
}

template <class Options>
void list_kernel_and_bias_constraints(LayerConfig& config, Options& options) {
  config.option("kernel_constraint", options.kernel_constraint);
  config.option("bias_constraint", options.bias_constraint);
}

// --- The options of each class.

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

void list_options(LayerConfig& config, layers::DropoutOptions& options) {
  config.option("rate", options.rate);
  if (config.is_written() ? !options.noise_shape.empty() : config.has("noise_shape"))
    config.option("noise_shape", options.noise_shape);
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

void list_options(LayerConfig& config, layers::NormalizationOptions& options) {
  const bool has_moments =
      config.is_written() ? options.mean.has_value() : config.has("mean") || config.has("variance");
  if (has_moments)
    config.refuse("has a mean or variance as options, which is not supported; adapt() makes them weights");
  config.option("invert", options.invert);
  if (config.is_written() && options.axis.empty())
    config.put("axis", "null");
  else if (config.is_written() || config.has("axis"))
    config.axes("axis", options.axis);
  else
    options.axis.clear();
}

void list_options(LayerConfig& config, layers::RescalingOptions& options) {
  config.option("scale", options.scale);
  config.option("offset", options.offset);
}

// What all recurrent layers have, those of cells too.
template <class Options>
void list_sequences(LayerConfig& config, Options& options) {
  config.require({{"unroll", "false"}});
  config.option("return_sequences", options.return_sequences);
  config.option("return_state", options.return_state);
  config.option("go_backwards", options.go_backwards);
  config.option("zero_output_for_mask", options.zero_output_for_mask);
  config.option("stateful", options.stateful);
}

// What cells have, and the layers of them.
template <class Options>
void list_cell(LayerConfig& config, Options& options) {
  config.option("activation", options.activation);
  config.option("use_bias", options.use_bias);
  list_kernel_and_bias(config, options);
  config.option("recurrent_initializer", options.recurrent_initializer);
  config.option("recurrent_regularizer", options.recurrent_regularizer);
  config.option("dropout", options.dropout);
  config.option("recurrent_dropout", options.recurrent_dropout);
}

template <class Options>
void list_recurrent(LayerConfig& config, Options& options) {
  config.option("units", options.units);
  list_cell(config, options);
  list_sequences(config, options);
  config.option("activity_regularizer", options.activity_regularizer);
}

void list_options(LayerConfig& config, layers::SimpleRNNOptions& options) { list_recurrent(config, options); }

void list_options(LayerConfig& config, layers::LSTMOptions& options) {
  list_recurrent(config, options);
  config.option("recurrent_activation", options.recurrent_activation);
  config.option("unit_forget_bias", options.unit_forget_bias);
}

void list_options(LayerConfig& config, layers::GRUOptions& options) {
  list_recurrent(config, options);
  config.option("recurrent_activation", options.recurrent_activation);
  config.option("reset_after", options.reset_after);
}

void list_options(LayerConfig& config, layers::BidirectionalOptions& options) {
  using enum layers::MergeMode;
  if (!config.is_written() && !config.has("merge_mode"))
    options.merge_mode = none;
  else if (options.merge_mode == none)
    config.put("merge_mode", "null");
  else
    config.option("merge_mode", options.merge_mode, {{"concat", concat}, {"sum", sum}, {"mul", mul}, {"ave", ave}});
}

void list_options(LayerConfig&, layers::TimeDistributedOptions&) {}
void list_options(LayerConfig&, layers::MergeOptions&) {}

void list_options(LayerConfig& config, layers::ConcatenateOptions& options) { config.option("axis", options.axis); }

// --- Classes.

template <class Options>
Options options_of(const LayerImpl& layer, const LayerConfig& config) {
  const auto* const options = std::any_cast<Options>(&layer.made_from());
  if (!options)
    config.refuse(
        "does not tell what it was made from: it is a class of your own, for which custom_layers may have a "
        "function");
  return *options;
}

template <class Class, class Options>
BuiltinLayer plain() {
  return {.make = [](LayerConfig& config, const InnerLayer&) -> Layer {
            Options options;
            list_options(config, options);
            return Class(options);
          },
          .write =
              [](const LayerImpl& layer, LayerConfig& config, const InnerJson&) {
                auto options = options_of<Options>(layer, config);
                list_options(config, options);
              }};
}

// A layer around another one.
template <class Class, class Options>
BuiltinLayer wrapper() {
  return {.make = [](LayerConfig& config, const InnerLayer& inner) -> Layer {
            Options options;
            list_options(config, options);
            return Class(inner(config.json("layer")), options);
          },
          .write =
              [](const LayerImpl& layer, LayerConfig& config, const InnerJson& inner) {
                auto options = options_of<Options>(layer, config);
                list_options(config, options);
                config.put("layer", inner(layer.sublayers().at(0)));
              }};
}

// The layer backwards is as the one forwards but for its name and direction, or it is one of its own.
std::map<std::string, std::string> options_in_both_directions(LayerConfig& config, const std::string& option) {
  auto object = json_members(config.json(option), config.layer());
  auto options = json_members(object["config"], config.layer());
  options["class_name"] = object["class_name"];
  options.erase("name");
  options.erase("dtype");
  options.erase("go_backwards");
  for (auto& [name, value] : options)
    if (name.ends_with("_initializer")) value.clear();
  return options;
}

BuiltinLayer bidirectional() {
  BuiltinLayer result = wrapper<layers::Bidirectional, layers::BidirectionalOptions>();
  result.make = [](LayerConfig& config, const InnerLayer& inner) -> Layer {
    if (config.has("backward_layer") &&
        options_in_both_directions(config, "layer") != options_in_both_directions(config, "backward_layer"))
      config.refuse("has a backward_layer of its own, which is not supported");
    return wrapper<layers::Bidirectional, layers::BidirectionalOptions>().make(config, inner);
  };
  return result;
}

}  // namespace

const BuiltinLayer* builtin_layer(const std::string& class_name) {
  using namespace layers;
  static const std::map<std::string, BuiltinLayer> classes{
      {"Activation", plain<layers::Activation, activations::Activation>()},
      {"Add", plain<Add, MergeOptions>()},
      {"Average", plain<Average, MergeOptions>()},
      {"AveragePooling1D", plain<AveragePooling1D, PoolingOptions<1>>()},
      {"AveragePooling2D", plain<AveragePooling2D, PoolingOptions<2>>()},
      {"AveragePooling3D", plain<AveragePooling3D, PoolingOptions<3>>()},
      {"BatchNormalization", plain<BatchNormalization, BatchNormalizationOptions>()},
      {"Bidirectional", bidirectional()},
      {"Concatenate", plain<Concatenate, ConcatenateOptions>()},
      {"Conv1D", plain<Conv1D, ConvOptions<1>>()},
      {"Conv1DTranspose", plain<Conv1DTranspose, ConvTransposeOptions<1>>()},
      {"Conv2D", plain<Conv2D, ConvOptions<2>>()},
      {"Conv2DTranspose", plain<Conv2DTranspose, ConvTransposeOptions<2>>()},
      {"Conv3D", plain<Conv3D, ConvOptions<3>>()},
      {"Conv3DTranspose", plain<Conv3DTranspose, ConvTransposeOptions<3>>()},
      {"Dense", plain<Dense, DenseOptions>()},
      {"DepthwiseConv1D", plain<DepthwiseConv1D, DepthwiseConvOptions<1>>()},
      {"DepthwiseConv2D", plain<DepthwiseConv2D, DepthwiseConvOptions<2>>()},
      {"Dropout", plain<Dropout, DropoutOptions>()},
      {"Embedding", plain<Embedding, EmbeddingOptions>()},
      {"Flatten", plain<Flatten, FlattenOptions>()},
      {"GRU", plain<GRU, GRUOptions>()},
      {"GlobalAveragePooling1D", plain<GlobalAveragePooling1D, GlobalPoolingOptions>()},
      {"GlobalAveragePooling2D", plain<GlobalAveragePooling2D, GlobalPoolingOptions>()},
      {"GlobalAveragePooling3D", plain<GlobalAveragePooling3D, GlobalPoolingOptions>()},
      {"GlobalMaxPooling1D", plain<GlobalMaxPooling1D, GlobalPoolingOptions>()},
      {"GlobalMaxPooling2D", plain<GlobalMaxPooling2D, GlobalPoolingOptions>()},
      {"GlobalMaxPooling3D", plain<GlobalMaxPooling3D, GlobalPoolingOptions>()},
      {"GroupNormalization", plain<GroupNormalization, GroupNormalizationOptions>()},
      {"InputLayer", plain<InputLayer, InputLayerOptions>()},
      {"LSTM", plain<LSTM, LSTMOptions>()},
      {"LayerNormalization", plain<LayerNormalization, LayerNormalizationOptions>()},
      {"MaxPooling1D", plain<MaxPooling1D, PoolingOptions<1>>()},
      {"MaxPooling2D", plain<MaxPooling2D, PoolingOptions<2>>()},
      {"MaxPooling3D", plain<MaxPooling3D, PoolingOptions<3>>()},
      {"Maximum", plain<Maximum, MergeOptions>()},
      {"Minimum", plain<Minimum, MergeOptions>()},
      {"Multiply", plain<Multiply, MergeOptions>()},
      {"Normalization", plain<Normalization, NormalizationOptions>()},
      {"PReLU", plain<PReLU, PReLUOptions>()},
      {"RMSNormalization", plain<RMSNormalization, RMSNormalizationOptions>()},
      {"ReLU", plain<ReLU, ReLUOptions>()},
      {"Rescaling", plain<Rescaling, RescalingOptions>()},
      {"Reshape", plain<Reshape, ReshapeOptions>()},
      {"SeparableConv1D", plain<SeparableConv1D, SeparableConvOptions<1>>()},
      {"SeparableConv2D", plain<SeparableConv2D, SeparableConvOptions<2>>()},
      {"SimpleRNN", plain<SimpleRNN, SimpleRNNOptions>()},
      {"Softmax", plain<Softmax, SoftmaxOptions>()},
      {"Subtract", plain<Subtract, MergeOptions>()},
      {"TimeDistributed", wrapper<TimeDistributed, TimeDistributedOptions>()},
  };
  const auto found = classes.find(class_name);
  return found == classes.end() ? nullptr : &found->second;
}

}  // namespace tutti::keras
