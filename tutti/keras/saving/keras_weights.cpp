#include "tutti/keras/saving/keras_weights.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tutti/checkpoint/weights_internal.h"
#include "tutti/core/str.h"
#include "tutti/files/hdf5_reader.h"
#include "tutti/files/hdf5_writer.h"
#include "tutti/keras/model.h"
#include "tutti/keras/saving/keras_variables.h"
#include "tutti/keras/saving/legacy_weights.h"
#include "tutti/keras/saving/stored_variable.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::keras {
namespace {

void load_from(const std::shared_ptr<const files::Hdf5Reader>& open, const Model& model,
               const std::filesystem::path& file) {
  if (const auto group = legacy_weights_in(*open)) return load_legacy_weights(model, open, *group, file);
  const KerasVariables found = keras_variables(model.model());
  std::map<std::string, const KerasVariable*> variables;
  for (const KerasVariable& variable : found.variables) variables[variable.path] = &variable;

  const auto label = [](const KerasVariable& variable) { return str(variable.name, " (", variable.path, ')'); };
  checkpoint::Weights weights;
  for (const KerasVariable& variable : found.variables) weights[label(variable)] = variable.value;
  checkpoint::StoredWeights stored;
  for (const std::string& path : open->datasets()) {
    if (const auto variable = variables.find(path); variable != variables.end())
      stored[label(*variable->second)] = stored_variable(open, *variable->second, path);
    else if (!path.starts_with("optimizer/"))  // whose state Python has in these files too
      stored[path] = {};
  }
  checkpoint::overwrite_weights("load_weights", file, weights, stored, checkpoint::SharedNames::all);
}

}  // namespace

void write_keras_weights(const Model& model, const std::function<void(const files::Hdf5Bytes& bytes)>& write) {
  const KerasVariables found = keras_variables(model.model());
  std::map<std::string, at::ScalarType> dtypes;
  checkpoint::Weights weights;
  for (const KerasVariable& variable : found.variables) {
    weights[variable.path] = variable.value;
    dtypes[variable.path] = variable.dtype;
  }
  checkpoint::write_on_chief(std::move(weights), [&](const checkpoint::Weights& values) {
    checkpoint::Weights datasets;
    for (const auto& [path, value] : values)
      datasets[path] = (is_mesh_tensor(value) ? gather(value) : value).to(dtypes.at(path));
    write(files::Hdf5Bytes(std::move(datasets), found.groups));
  });
}

void save_keras_weights(const Model& model, const std::filesystem::path& file) {
  write_keras_weights(model, [&](const files::Hdf5Bytes& bytes) { files::write_hdf5(file, bytes); });
}

void load_keras_weights(const Model& model, const std::filesystem::path& file) {
  load_from(std::make_shared<const files::Hdf5Reader>(file), model, file);
}

void load_keras_weights(const Model& model, const std::filesystem::path& file, std::string bytes) {
  load_from(std::make_shared<const files::Hdf5Reader>(std::move(bytes), file.string()), model, file);
}

}  // namespace tutti::keras
