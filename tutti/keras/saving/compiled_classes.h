#pragma once

#include <any>
#include <map>
#include <string>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/keras/losses/loss.h"
#include "tutti/keras/metrics/metric.h"
#include "tutti/keras/optimizers/optimizer.h"
#include "tutti/keras/saving/layer_config.h"

namespace tutti::keras {

inline const MadeFrom& made_from(const losses::Loss& loss) { return loss.made_from(); }
inline const MadeFrom& made_from(const metrics::Metric& metric) { return metric.made_from(); }
inline const MadeFrom& made_from(const optimizers::Optimizer& optimizer) { return optimizer.impl()->made_from(); }

// A class of Keras's losses, metrics or optimizers in .keras files. Both functions go through one list of its options.
template <class Object>
struct CompiledClass {
  Object (*make)(LayerConfig& config);
  void (*write)(const Object& object, LayerConfig& config);
};
template <class Object>
using CompiledClasses = std::map<std::string, CompiledClass<Object>>;  // by Keras's names

const CompiledClasses<losses::Loss>& loss_classes();
const CompiledClasses<metrics::Metric>& metric_classes();
const CompiledClasses<optimizers::Optimizer>& optimizer_classes();

// One that is made from Options, which `list` lists but for the name.
template <class Object, class Class, class Options, void (*list)(LayerConfig&, Options&)>
CompiledClass<Object> compiled_class() {
  return {.make = [](LayerConfig& config) -> Object {
            Options options{};
            config.option("name", options.name);
            list(config, options);
            return Class(options);
          },
          .write =
              [](const Object& object, LayerConfig& config) {
                auto options = std::any_cast<Options>(made_from(object).options);
                options.name = object.name();
                config.option("name", options.name);
                list(config, options);
              }};
}

// A class and its options as these files have them: its name, and the options' JSON. Throws: data_loss.
struct ClassAndConfig {
  std::string class_name, config;
};
ClassAndConfig class_of(const std::string& json, const std::string& owner);
std::string class_json(const char* module, const std::string& class_name, const LayerConfig& config);

// An object as these files have it: a name, a function by its name, or a class. `module` is Keras's, "keras.losses".
// Throws: unimplemented, with `owner`, for one that is a function of this program, or of a class that Keras lacks.
template <class Object>
std::string object_json(const Object& object, const CompiledClasses<Object>& classes, const char* module,
                        const std::string& owner) {
  const auto& [class_name, options] = made_from(object);
  if (!class_name.empty() && !options.has_value()) return json_text(class_name);
  LayerConfig config(str(owner, ": ", object.name()));
  const auto found = classes.find(class_name);
  if (found == classes.end())
    config.refuse(str("is of a class, or a function, of this program, which Python lacks; {.compile = false} leaves ",
                      "what compile said out of the file"));
  found->second.write(object, config);
  return class_json(module, class_name, config);
}

// And back. Throws: data_loss; unimplemented for what is not known here.
template <class Object>
Object object_of(const std::string& json, const CompiledClasses<Object>& classes, const std::string& owner) {
  const auto [class_name, options] = class_of(json, owner);
  const bool is_name = json.starts_with('"') || class_name == "function";
  const auto found = is_name ? classes.end() : classes.find(class_name);
  if (!is_name && found == classes.end())
    throw Error(ErrorCode::unimplemented,
                str(owner, ' ', class_name, " is not supported; {.compile = false} reads the model without it"));
  try {
    if (is_name) return Object(JsonReader(class_name == "function" ? options : json, owner).text().c_str());
    LayerConfig config(options, str(owner, ' ', class_name));
    config.keep_defaults();
    Object object = found->second.make(config);
    config.finish();
    return object;
  } catch (const Error& error) {  // of a number that the class does not take
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw Error(ErrorCode::unimplemented, str(owner, ": ", error.what()));
  }
}

}  // namespace tutti::keras
