#include "tutti/keras/saving/layer_config.h"

#include <cmath>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"

namespace tutti::keras {
namespace {

// The value that comes next, without white space around it.
std::string next_value(JsonReader& reader, std::string_view text) {
  const size_t begin = reader.at();
  reader.skip();
  std::string_view value = text.substr(begin, reader.at() - begin);
  value.remove_prefix(std::min(value.find_first_not_of(" \t\r\n"), value.size()));
  return std::string(value.substr(0, value.find_last_not_of(" \t\r\n") + 1));
}

}  // namespace

std::map<std::string, std::string> json_members(std::string_view object, std::string_view source) {
  JsonReader reader(object, source);
  std::map<std::string, std::string> members;
  reader.object([&](std::string_view key) {
    std::string name(key);
    members[std::move(name)] = next_value(reader, object);
  });
  return members;
}

std::vector<std::string> json_elements(std::string_view array, std::string_view source) {
  JsonReader reader(array, source);
  std::vector<std::string> elements;
  reader.array([&] { elements.push_back(next_value(reader, array)); });
  return elements;
}

std::string json_object(const std::map<std::string, std::string>& members) {
  std::string json;
  for (const auto& [name, value] : members) json += str(json.empty() ? "" : ", ", json_text(name), ": ", value);
  return str('{', json, '}');
}

std::string json_array(const std::vector<std::string>& elements) {
  std::string json;
  for (const std::string& element : elements) json += str(json.empty() ? "" : ", ", element);
  return str('[', json, ']');
}

std::string json_shape(const Shape& shape) {
  std::vector<std::string> extents;
  for (const int64_t extent : shape) extents.push_back(extent == kUnknown ? "null" : str(extent));
  return json_array(extents);
}

LayerConfig::LayerConfig(std::string_view json, std::string layer, std::map<std::string, std::string> calls)
    : layer_(std::move(layer)), is_written_(false), options_(json_members(json, layer_)), calls_(std::move(calls)) {}

LayerConfig::LayerConfig(std::string layer) : layer_(std::move(layer)), is_written_(true) {}

void LayerConfig::put(const std::string& option, std::string json) { options_[option] = std::move(json); }

void LayerConfig::option(const std::string& name, int64_t& value) {
  if (is_default(name)) return;
  is_written_ ? put(name, str(value)) : void(value = integer(name));
}

void LayerConfig::option(const std::string& name, uint64_t& value) {
  if (is_default(name)) return;
  if (is_written_) return put(name, str(value));
  const int64_t number = integer(name);
  if (number < 0) refuse(str("has ", name, " = ", number, "; it must be at least 0"));
  value = static_cast<uint64_t>(number);
}

void LayerConfig::option(const std::string& name, double& value) {
  if (is_default(name)) return;
  if (!is_written_) {
    value = number(name);
    return;
  }
  if (!std::isfinite(value)) refuse(str("has ", name, " = ", value, ", which these files cannot say"));
  put(name, json_number(value));
}

void LayerConfig::option(const std::string& name, bool& value) {
  if (is_default(name)) return;
  is_written_ ? put(name, value ? "true" : "false") : void(value = boolean(name));
}

void LayerConfig::option(const std::string& name, std::string& value) {
  if (is_default(name)) return;
  if (!is_written_) {
    value = text(name);
    return;
  }
  if (!is_utf8(value)) refuse(str("has a ", name, " that is not UTF-8"));
  put(name, json_text(value));
}

void LayerConfig::option(const std::string& name, Shape& value) {
  if (is_default(name)) return;
  is_written_ ? put(name, json_shape(value)) : void(value = shape(name));
}

void LayerConfig::integers(const std::string& name, std::vector<int64_t>& value) {
  if (is_default(name)) return;
  is_written_ ? put(name, str_list(value)) : void(value = shape(name));
}

void LayerConfig::axes(const std::string& name, std::vector<int64_t>& value) {
  if (is_default(name)) return;
  if (is_written_ ? value.size() == 1 : !json(name).starts_with('[')) {
    value.resize(1);
    return option(name, value[0]);
  }
  integers(name, value);
}

void LayerConfig::numbers(const std::string& name, std::vector<double>& value) {
  std::vector<std::string> elements;
  if (is_written_) {
    for (const double number : value) elements.push_back(json_number(number));
    return put(name, value.empty() ? "null" : json_array(elements));
  }
  if (!has(name)) return skip({name.c_str()});
  std::string list = json(name);
  if (list.starts_with('{')) {  // as Keras has tensors
    const auto members = json_members(list, layer_);
    const auto config = members.find("config");
    if (config == members.end()) refuse(str("has ", name, " = ", list, ", which is not supported"));
    list = LayerConfig(config->second, layer_).json("value");
  }
  value.clear();
  if (list.starts_with('['))
    elements = json_elements(list, layer_);
  else
    elements.push_back(list);
  for (const std::string& element : elements) value.push_back(JsonReader(element, layer_).number());
}

void LayerConfig::call_option(const std::string& name, bool& value) {
  if (is_written_) {
    if (value) calls_[name] = "true";
    return;
  }
  const auto found = calls_.find(name);
  value = found != calls_.end() && found->second == "true";
  if (value) calls_.erase(found);
}

bool LayerConfig::has(const std::string& option) const {
  const auto found = options_.find(option);
  return found != options_.end() && found->second != "null";
}

const std::string& LayerConfig::take(const std::string& option) {
  const auto found = options_.find(option);
  if (found == options_.end()) refuse(str("has no option ", option));
  taken_.insert(option);
  return found->second;
}

int64_t LayerConfig::integer(const std::string& option) { return JsonReader(take(option), layer_).integer(); }

double LayerConfig::number(const std::string& option) { return JsonReader(take(option), layer_).number(); }

bool LayerConfig::boolean(const std::string& option) {
  const std::string& value = take(option);
  if (value != "true" && value != "false")
    throw Error(ErrorCode::data_loss, str(layer_, ": ", option, " is ", value, "; it must be true or false"));
  return value == "true";
}

std::string LayerConfig::text(const std::string& option) { return JsonReader(take(option), layer_).text(); }

Shape LayerConfig::shape(const std::string& option) {
  Shape shape;
  for (const std::string& extent : list(option))
    shape.push_back(extent == "null" ? kUnknown : JsonReader(extent, layer_).integer());
  return shape;
}

std::string LayerConfig::json(const std::string& option) { return take(option); }

std::vector<std::string> LayerConfig::list(const std::string& option) { return json_elements(take(option), layer_); }

void LayerConfig::require(const std::map<std::string, std::string>& values) {
  if (is_written_) return;
  for (const auto& [option, value] : values)
    if (options_.contains(option) && take(option) != value)
      refuse(str("has ", option, " = ", options_.at(option), "; only ", value, " is supported"));
}

void LayerConfig::skip(std::initializer_list<const char*> options) { taken_.insert(options.begin(), options.end()); }

void LayerConfig::finish() const {
  for (const auto& [option, value] : options_)
    if (!taken_.contains(option) && value != "null" && !option.ends_with("_initializer"))
      refuse(str("has ", option, " = ", value, ", which is not supported"));
  for (const auto& [name, value] : calls_)
    refuse(str("is called with ", name, " = ", value, ", which is not supported"));
}

void LayerConfig::refuse(const std::string& what) const {
  throw Error(ErrorCode::unimplemented, str(layer_, ' ', what));
}

}  // namespace tutti::keras
