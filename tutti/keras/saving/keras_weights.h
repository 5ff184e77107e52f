#pragma once

#include <filesystem>
#include <string>

namespace tutti::keras {

class Model;

// Model::save_weights and load_weights of Keras's own files, .weights.h5.
void save_keras_weights(const Model& model, const std::filesystem::path& file);
void load_keras_weights(const Model& model, const std::filesystem::path& file);
// The same of the bytes of such a file; `file` is for messages.
void load_keras_weights(const Model& model, const std::filesystem::path& file, std::string bytes);

}  // namespace tutti::keras
