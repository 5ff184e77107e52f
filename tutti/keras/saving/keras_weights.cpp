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
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/saving/keras_variables.h"
#include "tutti/keras/saving/legacy_weights.h"
#include "tutti/keras/saving/optimizer_variables.h"
#include "tutti/keras/saving/stored_variable.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::keras {
namespace {

std::string label_of(const KerasVariable& variable) { return str(variable.name, " (", variable.path, ')'); }

// The state of what compile named. The weights are there already, so that it takes no more memory than they do.
void load_optimizer(const std::shared_ptr<const files::Hdf5Reader>& open, const Model& model,
                    const std::filesystem::path& file) {
  CompileOptions compiled = model.model().compiled();
  if (!compiled.optimizer) return;
  // Keras scales the loss by itself in float16, and compile_config does not say so.
  if (open->has_group("optimizer/inner_optimizer") && !compiled.optimizer->scales_loss()) {
    compiled.optimizer = optimizers::LossScaleOptimizer(*compiled.optimizer);
    model.compile(compiled);
  }
  const StoredOptimizer stored_optimizer(open, *compiled.optimizer, trained_in_order_of_keras(model.model()),
                                         str("load_model: '", file.string(), '\''));
  checkpoint::Weights state;
  checkpoint::StoredWeights stored;
  for (const OptimizerVariable& part : stored_optimizer.state()) {
    const KerasVariable variable{
        .path = part.path, .name = part.name, .dtype = part.value.scalar_type(), .value = part.value};
    state[label_of(variable)] = variable.value;
    stored[label_of(variable)] = stored_variable(open, variable, variable.path);
  }
  checkpoint::overwrite_weights("load_model", file, state, stored, checkpoint::SharedNames::all);
  stored_optimizer.restore_numbers();
}

void load_from(const std::shared_ptr<const files::Hdf5Reader>& open, const Model& model,
               const std::filesystem::path& file, KerasState state) {
  if (const auto group = legacy_weights_in(*open)) return load_legacy_weights(model, open, *group, file);
  const KerasVariables found = keras_variables(model.model());
  std::map<std::string, const KerasVariable*> variables;
  for (const KerasVariable& variable : found.variables) variables[variable.path] = &variable;

  checkpoint::Weights weights;
  for (const KerasVariable& variable : found.variables) weights[label_of(variable)] = variable.value;
  checkpoint::StoredWeights stored;
  for (const std::string& path : open->datasets()) {
    if (const auto variable = variables.find(path); variable != variables.end())
      stored[label_of(*variable->second)] = stored_variable(open, *variable->second, path);
    else if (!path.starts_with("optimizer/") && !found.constants.contains(path))  // which Python has in these files too
      stored[path] = {};
  }
  checkpoint::overwrite_weights("load_weights", file, weights, stored, checkpoint::SharedNames::all);
  if (state == KerasState::all) load_optimizer(open, model, file);
}

}  // namespace

void write_keras_weights(const Model& model, KerasState state,
                         const std::function<void(const files::Hdf5Bytes& bytes)>& write) {
  const KerasVariables found = keras_variables(model.model());
  std::map<std::string, at::ScalarType> dtypes;
  checkpoint::Weights weights;
  for (const KerasVariable& variable : found.variables) {
    weights[variable.path] = variable.value;
    dtypes[variable.path] = variable.dtype;
  }
  if (const auto& optimizer = model.model().compiled().optimizer; optimizer && state == KerasState::all) {
    optimizer->build(model.trainable_variables());
    for (const OptimizerVariable& part : optimizer_variables(*optimizer, trained_in_order_of_keras(model.model()))) {
      weights[part.path] = part.value;
      dtypes[part.path] = part.value.scalar_type();
    }
  }
  checkpoint::write_on_chief(std::move(weights), [&](const checkpoint::Weights& values) {
    checkpoint::Weights datasets;
    for (const auto& [path, value] : values)
      datasets[path] = (is_mesh_tensor(value) ? gather(value) : value).to(dtypes.at(path));
    datasets.insert(found.constants.begin(), found.constants.end());
    write(files::Hdf5Bytes(std::move(datasets), found.groups));
  });
}

void save_keras_weights(const Model& model, const std::filesystem::path& file) {
  write_keras_weights(model, KerasState::weights,
                      [&](const files::Hdf5Bytes& bytes) { files::write_hdf5(file, bytes); });
}

void load_keras_weights(const Model& model, const std::filesystem::path& file) {
  load_from(std::make_shared<const files::Hdf5Reader>(file), model, file, KerasState::weights);
}

void load_keras_weights(const Model& model, const std::filesystem::path& file,
                        const std::shared_ptr<const files::Hdf5Reader>& weights, KerasState state) {
  load_from(weights, model, file, state);
}

}  // namespace tutti::keras
