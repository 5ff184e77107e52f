#include "tutti/keras/layer_names.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <utility>

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

void name_uniquely(const std::vector<layers::Layer>& layers, layers::LayerImpl& model) {
  std::vector<std::shared_ptr<layers::LayerImpl>> distinct;
  for (const layers::Layer& layer : layers)
    if (std::ranges::find(distinct, layer.impl()) == distinct.end()) distinct.push_back(layer.impl());
  // Whose name matters more comes first.
  auto in_turn = distinct;
  std::ranges::stable_sort(
      in_turn, {}, [](const auto& layer) { return std::pair(layer->has_default_name(), !layer->is_in_a_model()); });
  std::set<std::string> taken;
  for (const auto& layer : in_turn) {
    const auto is_free = [&](const std::string& name) {
      return !taken.contains(name) && (name == layer->name() || !layer->is_beside(name));
    };
    std::string name = layer->name();
    if (layer->has_default_name())
      for (int number = 1; !is_free(name); ++number) name = str(snake_case(layer->type()), '_', number);
    if (!taken.insert(name).second) model.refuse(str("two layers are called \"", name, "\"; names must be unique"));
    if (name != layer->name()) layer->number(name);
  }
  model.keep_apart(distinct);
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += str(text.empty() ? "" : ", ", '"', name, '"');
  return text.empty() ? "without names" : text;
}

}  // namespace tutti::keras
