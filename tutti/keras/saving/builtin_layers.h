#pragma once

#include <functional>
#include <string>

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/saving/layer_config.h"

namespace tutti::keras {

// Makes a layer from its options; `inner` makes the one that an object in them describes, as wrappers have.
using InnerLayer = std::function<layers::Layer(const std::string& json)>;
using LayerMaker = layers::Layer (*)(LayerConfig& config, const InnerLayer& inner);

// Of a class of Keras's layers; null for one that is not known.
LayerMaker builtin_layer(const std::string& class_name);

}  // namespace tutti::keras
