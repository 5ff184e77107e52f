#pragma once

#include <any>
#include <map>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/window.h"
#include "tutti/keras/saving/builtin_layers.h"

namespace tutti::keras {

using BuiltinLayers = std::map<std::string, BuiltinLayer>;  // by Keras's names

// Recurrent ones, cells, attention.
const BuiltinLayers& sequence_layers();
// Bins, categories, vocabularies of integers, normalization of numbers.
const BuiltinLayers& preprocessing_layers();

// --- What the options of several classes have.

inline void list_padding(LayerConfig& config, layers::Padding& value) {
  using enum layers::Padding;
  config.option("padding", value, {{"valid", valid}, {"same", same}, {"causal", causal}});
}

inline void list_data_format(LayerConfig& config, layers::DataFormat& value) {
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

// Of a class that has no options.
template <class Options>
void list_no_options(LayerConfig&, Options&) {}

// --- Classes of layers that are made from Options, which `list` lists.

template <class Options>
Options options_of(const layers::LayerImpl& layer, const LayerConfig& config) {
  const auto* const options = std::any_cast<Options>(&layer.made_from());
  if (!options)
    config.refuse(
        "does not tell what it was made from: it is a class of your own, for which custom_layers may have a "
        "function");
  return *options;
}

template <class Class, class Options, void (*list)(LayerConfig&, Options&)>
BuiltinLayer plain() {
  return {.make = [](LayerConfig& config, const InnerLayer&) -> layers::Layer {
            Options options;
            list(config, options);
            return Class(options);
          },
          .write =
              [](const layers::LayerImpl& layer, LayerConfig& config, const InnerJson&) {
                auto options = options_of<Options>(layer, config);
                list(config, options);
              }};
}

// A layer around another one.
template <class Class, class Options, void (*list)(LayerConfig&, Options&)>
BuiltinLayer wrapper() {
  return {.make = [](LayerConfig& config, const InnerLayer& inner) -> layers::Layer {
            Options options;
            list(config, options);
            return Class(inner(config.json("layer")), options);
          },
          .write =
              [](const layers::LayerImpl& layer, LayerConfig& config, const InnerJson& inner) {
                auto options = options_of<Options>(layer, config);
                list(config, options);
                config.put("layer", inner(layer.sublayers().at(0)));
              }};
}

}  // namespace tutti::keras
