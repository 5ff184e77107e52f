#pragma once

#include <string>

#include "tutti/keras/model_impl.h"
#include "tutti/keras/saving/save_model_options.h"

namespace tutti::keras {

// What config.json of a .keras file says of a model, which is built. `file` is for messages. Throws: unimplemented, by
// the layer's name, for what Python's Keras cannot have; see Model::save.
std::string model_json(const ModelImpl& model, const std::string& file, const SaveModelOptions& options);

}  // namespace tutti::keras
