#include "tutti/keras/saving/legacy_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tutti/checkpoint/weights_internal.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/model.h"
#include "tutti/keras/saving/keras_variables.h"
#include "tutti/keras/saving/stored_variable.h"

namespace tutti::keras {
namespace {

using layers::LayerImpl;
using layers::Weight;

// An attribute that is a list of names; a long one is cut: "layer_names0", "layer_names1".
std::optional<std::vector<std::string>> listed_names(const files::Hdf5Reader& file, const std::string& group,
                                                     const std::string& attribute) {
  if (auto names = file.texts(group, attribute)) return names;
  std::optional<std::vector<std::string>> names;
  for (int64_t piece = 0; const auto some = file.texts(group, str(attribute, piece)); ++piece) {
    if (!names) names.emplace();
    names->insert(names->end(), some->begin(), some->end());
  }
  return names;
}

std::string path_in(const std::string& group, const std::string& name) {
  return group.empty() ? name : str(group, '/', name);
}

// The file's weights of a layer, or of the model itself.
struct LegacyGroup {
  std::string path;
  std::vector<std::string> weights;
};

class LegacyFile {
 public:
  LegacyFile(const files::Hdf5Reader& file, std::string group, std::string source)
      : file_(file), group_(std::move(group)), source_(std::move(source)) {
    const std::vector<std::string> datasets = file.datasets();
    datasets_.insert(datasets.begin(), datasets.end());
    const auto names = listed_names(file, group_, "layer_names");
    for (const std::string& name : names.value())
      if (LegacyGroup layer = group_of(name); !layer.weights.empty()) layers_.push_back(std::move(layer));
  }

  const std::vector<LegacyGroup>& layers() const { return layers_; }  // those that have weights
  LegacyGroup of_model() const {
    constexpr const char* kName = "top_level_model_weights";  // which Keras 2 has since 2.6
    return file_.has_group(path_in(group_, kName)) ? group_of(kName) : LegacyGroup{};
  }

 private:
  LegacyGroup group_of(const std::string& name) const {
    LegacyGroup group{.path = path_in(group_, name)};
    if (!file_.has_group(group.path)) damaged(str("it has no group '", group.path, "', which its layer_names names"));
    const auto weights = listed_names(file_, group.path, "weight_names");
    if (!weights) damaged(str("its group '", group.path, "' has no weight_names"));
    for (const std::string& weight : *weights) {
      group.weights.push_back(path_in(group.path, weight));
      if (!datasets_.contains(group.weights.back()))
        damaged(str("it has no weight '", group.weights.back(), "', which weight_names names"));
    }
    return group;
  }

  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorCode::data_loss, str("load_weights: ", source_, " is damaged: ", what));
  }

  const files::Hdf5Reader& file_;
  std::string group_, source_;
  std::set<std::string> datasets_;
  std::vector<LegacyGroup> layers_;
};

// "kernel" of "sequential/dense/kernel" and of "dense/kernel:0".
std::string own_name(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.substr(0, name.find(':'));
}

// The weights of the model, each with its place in the file.
class LegacyMatch {
 public:
  LegacyMatch(const Model& model, const LegacyFile& file, std::string source) : source_(std::move(source)) {
    for (const KerasVariable& variable : keras_variables(model.model()).variables)
      variables_[variable.value.unsafeGetTensorImpl()] = variable;
    std::vector<const LayerImpl*> layers;
    for (const auto& layer : layers_of_keras(model.model()))
      if (!layer->weights().empty()) layers.push_back(layer.get());
    if (layers.size() != file.layers().size())
      differs(str("it has ", file.layers().size(), " layers with weights, the model has ", layers.size()));
    for (size_t i = 0; i < layers.size(); ++i)
      match(str("the layer ", layers[i]->name()), weights_in_order_of_keras(*layers[i]), file.layers()[i]);
    std::vector<Weight> own;
    for (const Weight& weight : model.weights())
      if (weight.layer == &model.model()) own.push_back(weight);
    if (const LegacyGroup group = file.of_model(); !own.empty() || !group.weights.empty())
      match(str("the model ", model.name(), " itself"), own, group);
  }

  const std::vector<std::pair<KerasVariable, std::string>>& pairs() const { return pairs_; }

 private:
  [[noreturn]] void differs(const std::string& what) const {
    throw Error(ErrorCode::failed_precondition,
                str("load_weights: ", source_, " does not fit; nothing was changed: ", what));
  }

  void match(const std::string& owner, const std::vector<Weight>& weights, const LegacyGroup& group) {
    std::vector<std::string> own, stored;
    for (const Weight& weight : weights) own.push_back(own_name(weight.name));
    for (const std::string& path : group.weights) stored.push_back(own_name(path));
    if (own.size() != stored.size())
      differs(str("'", group.path, "' has the weights ", str_list(stored), ", ", owner, " has ", str_list(own)));
    // Classes name weights as they like; but the same names in another order were frozen otherwise.
    if (own != stored && std::ranges::is_permutation(own, stored))
      differs(str("'", group.path, "' has the weights ", str_list(stored), ", ", owner, " has ", str_list(own),
                  "; freeze the layers that were frozen when the file was written"));
    for (size_t i = 0; i < weights.size(); ++i)
      pairs_.emplace_back(variables_.at(weights[i].value.unsafeGetTensorImpl()), group.weights[i]);
  }

  std::string source_;
  std::map<const at::TensorImpl*, KerasVariable> variables_;
  std::vector<std::pair<KerasVariable, std::string>> pairs_;
};

}  // namespace

std::optional<std::string> legacy_weights_in(const files::Hdf5Reader& file) {
  for (const char* const group : {"", "model_weights"})
    if (file.has_group(group) && listed_names(file, group, "layer_names")) return group;
  return std::nullopt;
}

void load_legacy_weights(const Model& model, const std::shared_ptr<const files::Hdf5Reader>& open,
                         const std::string& group, const std::filesystem::path& file) {
  const std::string source = str('\'', file.string(), '\'');
  const LegacyMatch match(model, LegacyFile(*open, group, source), source);
  checkpoint::Weights weights;
  checkpoint::StoredWeights stored;
  for (const auto& [variable, path] : match.pairs()) {
    const std::string label = str(variable.name, " (", path, ')');
    weights[label] = variable.value;
    stored[label] = stored_variable(open, variable, path);
  }
  checkpoint::overwrite_weights("load_weights", file, weights, stored, checkpoint::SharedNames::all);
}

}  // namespace tutti::keras
