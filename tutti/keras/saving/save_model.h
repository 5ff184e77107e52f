#pragma once

#include <filesystem>

#include "tutti/keras/saving/save_model_options.h"

namespace tutti::keras {

class Model;

// Model::save.
void save_model(const Model& model, const std::filesystem::path& file, const SaveModelOptions& options);

}  // namespace tutti::keras
