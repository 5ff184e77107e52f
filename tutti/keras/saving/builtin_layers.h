#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/saving/layer_config.h"

namespace tutti::keras {

// Makes the layer that an object in another one's options describes, as wrappers have; and describes it.
using InnerLayer = std::function<layers::Layer(const std::string& json)>;
using InnerJson = std::function<std::string(const std::shared_ptr<layers::LayerImpl>& layer)>;

// A class of Keras's layers in .keras files. Both functions go through one list of its options.
struct BuiltinLayer {
  layers::Layer (*make)(LayerConfig& config, const InnerLayer& inner);
  void (*write)(const layers::LayerImpl& layer, LayerConfig& config, const InnerJson& inner);
};

// By Keras's name for the class, which is the layer's type but for GroupedQueryAttention; null for one that is not
// known.
const BuiltinLayer* builtin_layer(const std::string& class_name);

}  // namespace tutti::keras
