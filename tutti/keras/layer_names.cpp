#include "tutti/keras/layer_names.h"

#include <set>

#include "tutti/core/str.h"

namespace tutti::keras {

void name_uniquely(const std::vector<layers::Layer>& layers, const layers::LayerImpl& model) {
  std::set<std::string> taken;
  std::set<const layers::LayerImpl*> seen;
  for (const layers::Layer& layer : layers) {
    if (!seen.insert(layer.impl().get()).second) continue;
    std::string name = layer.name();
    if (layer.impl()->has_default_name())
      for (int number = 1; taken.contains(name); ++number) name = str(layer.name(), '_', number);
    if (!taken.insert(name).second) model.refuse(str("two layers are called \"", name, "\"; names must be unique"));
    if (name != layer.name()) layer.impl()->rename(name);
  }
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += str(text.empty() ? "" : ", ", '"', name, '"');
  return text.empty() ? "without names" : text;
}

}  // namespace tutti::keras
