#include "tutti/keras/layer_names.h"

#include <cctype>
#include <set>

#include "tutti/core/str.h"

namespace tutti::keras {

std::string snake_case(const std::string& type) {
  const auto upper = [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; };
  const auto lower = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; };
  std::string name;
  for (size_t i = 0; i < type.size(); ++i) {
    const bool starts_word = i + 1 < type.size() && lower(type[i + 1]);
    if (i > 0 && upper(type[i]) && (starts_word || lower(type[i - 1]))) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(type[i])));
  }
  return name;
}

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
