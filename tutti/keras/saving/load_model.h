#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "tutti/keras/model.h"
#include "tutti/keras/saving/layer_config.h"

namespace tutti::keras {

struct LoadModelOptions {
  // Makes layers of classes of one's own, by the names under which Python has registered them: "my_package>MyLayer".
  std::map<std::string, std::function<layers::Layer(LayerConfig& config)>> custom_layers = {};
  // Compiles the model as it was, with the optimizer's state, so that training goes on. Keras: the argument `compile`
  bool compile = true;
};

// The model in a .keras file, which Python's Keras 3 has written by model.save(): sequential or functional, with its
// weights, under the strategy in whose scope it is called. Nothing in the file is run.
// Throws: not_found; unavailable if it cannot be opened; data_loss for a damaged file; unimplemented, by the layer's
// class and the option's name, for what is not known here, such as a class, an option in another value than Keras's
// own, or an operation on places; failed_precondition for weights that do not fit. Keras: keras.models.load_model
Model load_model(const std::filesystem::path& file, const LoadModelOptions& options = {});

}  // namespace tutti::keras
