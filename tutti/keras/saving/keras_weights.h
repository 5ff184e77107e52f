#pragma once

#include <filesystem>

namespace tutti::keras {

class Model;

// Model::save_weights and load_weights of Keras's own files, .weights.h5.
void save_keras_weights(const Model& model, const std::filesystem::path& file);
void load_keras_weights(const Model& model, const std::filesystem::path& file);

}  // namespace tutti::keras
