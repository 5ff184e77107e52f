#include "tutti/keras/saving/builtin_layers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/activations.h"
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

// The one of `values` that an option names.
template <class T>
T named(LayerConfig& config, const std::string& option, const std::map<std::string, T>& values) {
  const std::string name = config.text(option);
  const auto found = values.find(name);
  if (found == values.end()) config.refuse(str("has ", option, " = \"", name, "\", which is not supported"));
  return found->second;
}

activations::Activation activation_of(LayerConfig& config, const std::string& option = "activation") {
  if (!config.has(option)) return activations::linear;
  const std::string name = config.text(option);
  try {
    return name;
  } catch (const Error& error) {
    config.refuse(str("has ", option, " = \"", name, "\", which is not supported: ", error.what()));
  }
}

layers::DataFormat data_format_of(LayerConfig& config) {
  using enum layers::DataFormat;
  return named<layers::DataFormat>(config, "data_format",
                                   {{"channels_last", channels_last}, {"channels_first", channels_first}});
}

layers::Padding padding_of(LayerConfig& config) {
  using enum layers::Padding;
  return named<layers::Padding>(config, "padding", {{"valid", valid}, {"same", same}, {"causal", causal}});
}

template <size_t Rank>
layers::Size<Rank> size_of(LayerConfig& config, const std::string& option) {
  const Shape extents = config.shape(option);
  layers::Size<Rank> size{};
  if (extents.size() != Rank)
    config.refuse(str("has ", option, " of ", extents.size(), " numbers; ", Rank, " are expected"));
  std::ranges::copy(extents, size.begin());
  return size;
}

Layer make_input(LayerConfig& config, const InnerLayer&) {
  config.require({{"sparse", "false"}, {"ragged", "false"}, {"optional", "false"}});
  const Shape shape = config.shape("batch_shape");
  if (shape.empty()) config.refuse("has a batch_shape without axes");
  return layers::InputLayer({.shape = {shape.begin() + 1, shape.end()}, .batch = shape[0]});
}

Layer make_dense(LayerConfig& config, const InnerLayer&) {
  return layers::Dense(
      {.units = config.integer("units"), .activation = activation_of(config), .use_bias = config.boolean("use_bias")});
}

Layer make_activation(LayerConfig& config, const InnerLayer&) { return layers::Activation(activation_of(config)); }

Layer make_relu(LayerConfig& config, const InnerLayer&) {
  layers::ReLUOptions options{.negative_slope = config.number("negative_slope"),
                              .threshold = config.number("threshold")};
  if (config.has("max_value")) options.max_value = config.number("max_value");
  return layers::ReLU(options);
}

Layer make_softmax(LayerConfig& config, const InnerLayer&) { return layers::Softmax({.axis = config.integer("axis")}); }

Layer make_dropout(LayerConfig& config, const InnerLayer&) { return layers::Dropout({.rate = config.number("rate")}); }

Layer make_flatten(LayerConfig& config, const InnerLayer&) {
  return layers::Flatten({.data_format = data_format_of(config)});
}

Layer make_reshape(LayerConfig& config, const InnerLayer&) {
  return layers::Reshape({.target_shape = config.shape("target_shape")});
}

template <size_t Rank>
Layer make_conv(LayerConfig& config, const InnerLayer&) {
  return layers::Conv<Rank>({.filters = config.integer("filters"),
                             .kernel_size = size_of<Rank>(config, "kernel_size"),
                             .strides = size_of<Rank>(config, "strides"),
                             .padding = padding_of(config),
                             .data_format = data_format_of(config),
                             .dilation_rate = size_of<Rank>(config, "dilation_rate"),
                             .groups = config.integer("groups"),
                             .activation = activation_of(config),
                             .use_bias = config.boolean("use_bias")});
}

template <size_t Rank>
Layer make_depthwise_conv(LayerConfig& config, const InnerLayer&) {
  return layers::DepthwiseConv<Rank>({.kernel_size = size_of<Rank>(config, "kernel_size"),
                                      .strides = size_of<Rank>(config, "strides"),
                                      .padding = padding_of(config),
                                      .data_format = data_format_of(config),
                                      .depth_multiplier = config.integer("depth_multiplier"),
                                      .dilation_rate = size_of<Rank>(config, "dilation_rate"),
                                      .activation = activation_of(config),
                                      .use_bias = config.boolean("use_bias")});
}

template <size_t Rank>
Layer make_separable_conv(LayerConfig& config, const InnerLayer&) {
  return layers::SeparableConv<Rank>({.filters = config.integer("filters"),
                                      .kernel_size = size_of<Rank>(config, "kernel_size"),
                                      .strides = size_of<Rank>(config, "strides"),
                                      .padding = padding_of(config),
                                      .data_format = data_format_of(config),
                                      .dilation_rate = size_of<Rank>(config, "dilation_rate"),
                                      .depth_multiplier = config.integer("depth_multiplier"),
                                      .activation = activation_of(config),
                                      .use_bias = config.boolean("use_bias")});
}

template <size_t Rank>
Layer make_conv_transpose(LayerConfig& config, const InnerLayer&) {
  return layers::ConvTranspose<Rank>({.filters = config.integer("filters"),
                                      .kernel_size = size_of<Rank>(config, "kernel_size"),
                                      .strides = size_of<Rank>(config, "strides"),
                                      .padding = padding_of(config),
                                      .data_format = data_format_of(config),
                                      .dilation_rate = size_of<Rank>(config, "dilation_rate"),
                                      .activation = activation_of(config),
                                      .use_bias = config.boolean("use_bias")});
}

template <template <size_t> class Pooling, size_t Rank>
Layer make_pooling(LayerConfig& config, const InnerLayer&) {
  return Pooling<Rank>({.pool_size = size_of<Rank>(config, "pool_size"),
                        .strides = size_of<Rank>(config, "strides"),
                        .padding = padding_of(config),
                        .data_format = data_format_of(config)});
}

template <class Pooling>
Layer make_global_pooling(LayerConfig& config, const InnerLayer&) {
  return Pooling({.data_format = data_format_of(config), .keepdims = config.boolean("keepdims")});
}

Layer make_batch_normalization(LayerConfig& config, const InnerLayer&) {
  config.require({{"renorm", "false"}});
  config.skip({"renorm_clipping", "renorm_momentum"});
  return layers::BatchNormalization({.axis = config.integer("axis"),
                                     .momentum = config.number("momentum"),
                                     .epsilon = config.number("epsilon"),
                                     .center = config.boolean("center"),
                                     .scale = config.boolean("scale"),
                                     .synchronized = config.has("synchronized") && config.boolean("synchronized")});
}

// One axis, or a list of them.
std::vector<int64_t> axes_of(LayerConfig& config) {
  if (config.json("axis").starts_with('[')) return config.shape("axis");
  return {config.integer("axis")};
}

Layer make_group_normalization(LayerConfig& config, const InnerLayer&) {
  return layers::GroupNormalization({.groups = config.integer("groups"),
                                     .axis = config.integer("axis"),
                                     .epsilon = config.number("epsilon"),
                                     .center = config.boolean("center"),
                                     .scale = config.boolean("scale")});
}

Layer make_rms_normalization(LayerConfig& config, const InnerLayer&) {
  return layers::RMSNormalization({.axis = axes_of(config), .epsilon = config.number("epsilon")});
}

Layer make_prelu(LayerConfig& config, const InnerLayer&) {
  if (!config.has("shared_axes")) return layers::PReLU();
  return layers::PReLU({.shared_axes = config.shape("shared_axes")});
}

Layer make_layer_normalization(LayerConfig& config, const InnerLayer&) {
  config.require({{"rms_scaling", "false"}});
  return layers::LayerNormalization({.axis = axes_of(config),
                                     .epsilon = config.number("epsilon"),
                                     .center = config.boolean("center"),
                                     .scale = config.boolean("scale")});
}

Layer make_normalization(LayerConfig& config, const InnerLayer&) {
  if (config.has("mean") || config.has("variance"))
    config.refuse("has a mean or variance as options, which is not supported");
  const std::vector<int64_t> axis = config.has("axis") ? axes_of(config) : std::vector<int64_t>();
  return layers::Normalization({.axis = axis, .invert = config.boolean("invert")});
}

Layer make_rescaling(LayerConfig& config, const InnerLayer&) {
  return layers::Rescaling({.scale = config.number("scale"), .offset = config.number("offset")});
}

Layer make_embedding(LayerConfig& config, const InnerLayer&) {
  return layers::Embedding({.input_dim = config.integer("input_dim"),
                            .output_dim = config.integer("output_dim"),
                            .mask_zero = config.boolean("mask_zero")});
}

// What SimpleRNN, LSTM and GRU have in common.
template <class Options>
Options recurrent_config(LayerConfig& config) {
  config.require({{"unroll", "false"}});
  Options options{.units = config.integer("units"), .activation = activation_of(config)};
  options.use_bias = config.boolean("use_bias");
  options.dropout = config.number("dropout");
  options.recurrent_dropout = config.number("recurrent_dropout");
  options.return_sequences = config.boolean("return_sequences");
  options.return_state = config.boolean("return_state");
  options.go_backwards = config.boolean("go_backwards");
  options.zero_output_for_mask = config.boolean("zero_output_for_mask");
  options.stateful = config.boolean("stateful");
  return options;
}

Layer make_simple_rnn(LayerConfig& config, const InnerLayer&) {
  return layers::SimpleRNN(recurrent_config<layers::SimpleRNNOptions>(config));
}

Layer make_lstm(LayerConfig& config, const InnerLayer&) {
  auto options = recurrent_config<layers::LSTMOptions>(config);
  options.recurrent_activation = activation_of(config, "recurrent_activation");
  options.unit_forget_bias = config.boolean("unit_forget_bias");
  return layers::LSTM(options);
}

Layer make_gru(LayerConfig& config, const InnerLayer&) {
  auto options = recurrent_config<layers::GRUOptions>(config);
  options.recurrent_activation = activation_of(config, "recurrent_activation");
  options.reset_after = config.boolean("reset_after");
  return layers::GRU(options);
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

Layer make_bidirectional(LayerConfig& config, const InnerLayer& inner) {
  using enum layers::MergeMode;
  if (config.has("backward_layer") &&
      options_in_both_directions(config, "layer") != options_in_both_directions(config, "backward_layer"))
    config.refuse("has a backward_layer of its own, which is not supported");
  const auto mode = !config.has("merge_mode")
                        ? none
                        : named<layers::MergeMode>(config, "merge_mode",
                                                   {{"concat", concat}, {"sum", sum}, {"mul", mul}, {"ave", ave}});
  return layers::Bidirectional(inner(config.json("layer")), {.merge_mode = mode});
}

Layer make_time_distributed(LayerConfig& config, const InnerLayer& inner) {
  return layers::TimeDistributed(inner(config.json("layer")));
}

Layer make_concatenate(LayerConfig& config, const InnerLayer&) {
  return layers::Concatenate({.axis = config.integer("axis")});
}

template <class Merge>
Layer make_merge(LayerConfig&, const InnerLayer&) {
  return Merge();
}

}  // namespace

LayerMaker builtin_layer(const std::string& class_name) {
  static const std::map<std::string, LayerMaker> makers{
      {"Activation", make_activation},
      {"Add", make_merge<layers::Add>},
      {"Average", make_merge<layers::Average>},
      {"AveragePooling1D", make_pooling<layers::AveragePooling, 1>},
      {"AveragePooling2D", make_pooling<layers::AveragePooling, 2>},
      {"AveragePooling3D", make_pooling<layers::AveragePooling, 3>},
      {"BatchNormalization", make_batch_normalization},
      {"Bidirectional", make_bidirectional},
      {"Concatenate", make_concatenate},
      {"Conv1D", make_conv<1>},
      {"Conv1DTranspose", make_conv_transpose<1>},
      {"Conv2D", make_conv<2>},
      {"Conv2DTranspose", make_conv_transpose<2>},
      {"Conv3D", make_conv<3>},
      {"Conv3DTranspose", make_conv_transpose<3>},
      {"Dense", make_dense},
      {"DepthwiseConv1D", make_depthwise_conv<1>},
      {"DepthwiseConv2D", make_depthwise_conv<2>},
      {"Dropout", make_dropout},
      {"Embedding", make_embedding},
      {"Flatten", make_flatten},
      {"GRU", make_gru},
      {"GlobalAveragePooling1D", make_global_pooling<layers::GlobalAveragePooling1D>},
      {"GlobalAveragePooling2D", make_global_pooling<layers::GlobalAveragePooling2D>},
      {"GlobalMaxPooling1D", make_global_pooling<layers::GlobalMaxPooling1D>},
      {"GlobalMaxPooling2D", make_global_pooling<layers::GlobalMaxPooling2D>},
      {"GroupNormalization", make_group_normalization},
      {"InputLayer", make_input},
      {"LSTM", make_lstm},
      {"LayerNormalization", make_layer_normalization},
      {"MaxPooling1D", make_pooling<layers::MaxPooling, 1>},
      {"MaxPooling2D", make_pooling<layers::MaxPooling, 2>},
      {"MaxPooling3D", make_pooling<layers::MaxPooling, 3>},
      {"Maximum", make_merge<layers::Maximum>},
      {"Minimum", make_merge<layers::Minimum>},
      {"Multiply", make_merge<layers::Multiply>},
      {"Normalization", make_normalization},
      {"PReLU", make_prelu},
      {"RMSNormalization", make_rms_normalization},
      {"ReLU", make_relu},
      {"Rescaling", make_rescaling},
      {"Reshape", make_reshape},
      {"SeparableConv1D", make_separable_conv<1>},
      {"SeparableConv2D", make_separable_conv<2>},
      {"SimpleRNN", make_simple_rnn},
      {"Softmax", make_softmax},
      {"Subtract", make_merge<layers::Subtract>},
      {"TimeDistributed", make_time_distributed},
  };
  const auto found = makers.find(class_name);
  return found == makers.end() ? nullptr : found->second;
}

}  // namespace tutti::keras
