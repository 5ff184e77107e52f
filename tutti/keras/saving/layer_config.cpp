#include "tutti/keras/saving/layer_config.h"

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

LayerConfig::LayerConfig(std::string_view json, std::string layer)
    : layer_(std::move(layer)), options_(json_members(json, layer_)) {}

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
  for (const auto& [option, value] : values)
    if (options_.contains(option) && take(option) != value)
      refuse(str("has ", option, " = ", options_.at(option), "; only ", value, " is supported"));
}

void LayerConfig::skip(std::initializer_list<const char*> options) { taken_.insert(options.begin(), options.end()); }

void LayerConfig::finish() const {
  for (const auto& [option, value] : options_)
    if (!taken_.contains(option) && value != "null" && !option.ends_with("_initializer"))
      refuse(str("has ", option, " = ", value, ", which is not supported"));
}

void LayerConfig::refuse(const std::string& what) const {
  throw Error(ErrorCode::unimplemented, str(layer_, ' ', what));
}

}  // namespace tutti::keras
