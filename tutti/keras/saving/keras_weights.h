#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "tutti/files/hdf5_reader.h"
#include "tutti/files/hdf5_writer.h"

namespace tutti::keras {

class Model;

// Model::save_weights and load_weights of Keras's own files, .weights.h5.
void save_keras_weights(const Model& model, const std::filesystem::path& file);
void load_keras_weights(const Model& model, const std::filesystem::path& file);
// What of a model: with the state of the optimizer that it was compiled with, or without it.
enum class KerasState { all, weights };
// The same of the bytes of such a file, in another one: the chief of the processes, which all call this, writes them,
// with all values gathered; `file` is for messages.
void write_keras_weights(const Model& model, KerasState state,
                         const std::function<void(const files::Hdf5Bytes& bytes)>& write);
void load_keras_weights(const Model& model, const std::filesystem::path& file,
                        const std::shared_ptr<const files::Hdf5Reader>& weights, KerasState state);

}  // namespace tutti::keras
