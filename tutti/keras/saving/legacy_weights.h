#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tutti/files/hdf5_reader.h"

namespace tutti::keras {

class Model;

// Where a file has weights as Keras 2 lays them out, "" or "model_weights"; nothing if it has none.
std::optional<std::string> legacy_weights_in(const files::Hdf5Reader& file);

// Reads them, from the group that was found, as Keras does: layers and weights by their order, not by their names. All
// or nothing; `file` is for messages. Throws: failed_precondition, before anything is changed, with all that differ;
// data_loss for names of nothing. Source: keras.src.legacy.saving.legacy_h5_format.
void load_legacy_weights(const Model& model, const std::shared_ptr<const files::Hdf5Reader>& open,
                         const std::string& group, const std::filesystem::path& file);

}  // namespace tutti::keras
