#pragma once

#include <functional>
#include <map>
#include <string>

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/saving/layer_config.h"

namespace tutti::keras {

// How layers of a class of one's own are written.
struct CustomLayerWriter {
  std::string registered_name;  // by which Python has registered its class: "my_package>MyLayer"
  // Puts the options there that Python's class takes, but for name, trainable and dtype, which all layers have.
  std::function<void(const layers::Layer& layer, LayerConfig& config)> write;
};

struct SaveModelOptions {
  std::map<std::string, CustomLayerWriter> custom_layers = {};  // by the type that the class gives LayerImpl
  bool compile = true;  // what compile said, and the optimizer's state, are in the file too
};

}  // namespace tutti::keras
