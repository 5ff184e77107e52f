#include <algorithm>
#include <any>
#include <cctype>
#include <type_traits>
#include <variant>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/keras/saving/layer_config.h"

// The options that are functions: activations, which these files name, and initializers, regularizers and constraints,
// which are objects of Keras's classes.
namespace tutti::keras {
namespace {

// A class of Keras's, as an Object here.
template <class Object>
struct FunctionClass {
  const char* name;
  bool (*is_of)(const Object&);
  Object (*make)(LayerConfig&);
  void (*write)(const Object&, LayerConfig&);  // of one that is of the class
};

// "he_normal" and "HeNormal", "l1_l2" and "L1L2".
bool is_same_name(std::string own, const std::string& keras) {
  std::erase(own, '_');
  return std::ranges::equal(own, keras, {}, {}, [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
}

template <class T, class Options>
T function_of(const Options& options) {
  if constexpr (std::is_same_v<Options, std::monostate>)
    return T();
  else if constexpr (std::is_constructible_v<T, Options>)
    return T(options);
  else if constexpr (std::is_same_v<T, initializers::Orthogonal>)
    return T(options.gain, options.seed);
  else
    return T({.seed = options.seed});
}

// Of the class T, which tells that it was made from Options; `list` lists them.
template <class Object, class T, class Options, void (*list)(LayerConfig&, Options&)>
FunctionClass<Object> function_class(const char* name) {
  return {.name = name,
          .is_of = [](const Object& object) { return std::any_cast<Options>(&object.made_from()) != nullptr; },
          .make = [](LayerConfig& config) -> Object {
            Options options{};
            list(config, options);
            return function_of<T>(options);
          },
          .write =
              [](const Object& object, LayerConfig& config) {
                auto options = std::any_cast<Options>(object.made_from());
                list(config, options);
              }};
}

using initializers::Initializer;
using ScalingOptions = initializers::VarianceScalingOptions;

void list_nothing(LayerConfig&, std::monostate&) {}
void list_seed(LayerConfig& config, ScalingOptions& options) { config.option("seed", options.seed); }

void list_normal(LayerConfig& config, initializers::RandomNormalOptions& options) {
  config.option("mean", options.mean);
  config.option("stddev", options.stddev);
  config.option("seed", options.seed);
}

void list_uniform(LayerConfig& config, initializers::RandomUniformOptions& options) {
  config.option("minval", options.minval);
  config.option("maxval", options.maxval);
  config.option("seed", options.seed);
}

void list_variance_scaling(LayerConfig& config, ScalingOptions& options) {
  using enum initializers::FanMode;
  using enum initializers::Distribution;
  config.option("scale", options.scale);
  config.option("mode", options.mode, {{"fan_in", fan_in}, {"fan_out", fan_out}, {"fan_avg", fan_avg}});
  config.option(
      "distribution", options.distribution,
      {{"uniform", uniform}, {"truncated_normal", truncated_normal}, {"untruncated_normal", untruncated_normal}});
  config.option("seed", options.seed);
}

void list_orthogonal(LayerConfig& config, initializers::OrthogonalOptions& options) {
  config.option("gain", options.gain);
  config.option("seed", options.seed);
}

void list_constant(LayerConfig& config, double& value) { config.option("value", value); }

void list_identity(LayerConfig& config, double& gain) {
  if (!config.is_written()) gain = 1;  // Keras leaves it out
  if (config.is_written() || config.has("gain")) config.option("gain", gain);
}

template <class T, class Options, void (*list)(LayerConfig&, Options&)>
FunctionClass<Initializer> initializer(const char* name) {
  return function_class<Initializer, T, Options, list>(name);
}

const std::vector<FunctionClass<Initializer>>& classes_of(const Initializer*) {
  namespace from = initializers;
  static const std::vector<FunctionClass<Initializer>> classes{
      initializer<from::Zeros, std::monostate, list_nothing>("Zeros"),
      initializer<from::Ones, std::monostate, list_nothing>("Ones"),
      initializer<from::Constant, double, list_constant>("Constant"),
      initializer<from::Identity, double, list_identity>("Identity"),
      initializer<from::RandomNormal, from::RandomNormalOptions, list_normal>("RandomNormal"),
      initializer<from::TruncatedNormal, from::RandomNormalOptions, list_normal>("TruncatedNormal"),
      initializer<from::RandomUniform, from::RandomUniformOptions, list_uniform>("RandomUniform"),
      initializer<from::Orthogonal, from::OrthogonalOptions, list_orthogonal>("Orthogonal"),
      initializer<from::VarianceScaling, ScalingOptions, list_variance_scaling>("VarianceScaling"),
      initializer<from::GlorotUniform, ScalingOptions, list_seed>("GlorotUniform"),
      initializer<from::GlorotNormal, ScalingOptions, list_seed>("GlorotNormal"),
      initializer<from::HeUniform, ScalingOptions, list_seed>("HeUniform"),
      initializer<from::HeNormal, ScalingOptions, list_seed>("HeNormal"),
      initializer<from::LecunUniform, ScalingOptions, list_seed>("LecunUniform"),
      initializer<from::LecunNormal, ScalingOptions, list_seed>("LecunNormal"),
  };
  return classes;
}

using regularizers::Regularizer;

void list_l1(LayerConfig& config, double& l1) { config.option("l1", l1); }
void list_l2(LayerConfig& config, double& l2) { config.option("l2", l2); }

void list_l1_l2(LayerConfig& config, regularizers::L1L2Options& options) {
  config.option("l1", options.l1);
  config.option("l2", options.l2);
}

using Orthogonality = regularizers::OrthogonalRegularizerOptions;

void list_orthogonality(LayerConfig& config, Orthogonality& options) {
  using enum Orthogonality::Mode;
  config.option("factor", options.factor);
  config.option("mode", options.mode, {{"rows", rows}, {"columns", columns}});
}

const std::vector<FunctionClass<Regularizer>>& classes_of(const Regularizer*) {
  namespace from = regularizers;
  static const std::vector<FunctionClass<Regularizer>> classes{
      function_class<Regularizer, from::L1, double, list_l1>("L1"),
      function_class<Regularizer, from::L2, double, list_l2>("L2"),
      function_class<Regularizer, from::L1L2, from::L1L2Options, list_l1_l2>("L1L2"),
      function_class<Regularizer, from::OrthogonalRegularizer, Orthogonality, list_orthogonality>(
          "OrthogonalRegularizer"),
  };
  return classes;
}

using constraints::Constraint;

void list_max_norm(LayerConfig& config, constraints::MaxNormOptions& options) {
  config.option("max_value", options.max_value);
  config.axes("axis", options.axis);
}

void list_unit_norm(LayerConfig& config, constraints::UnitNormOptions& options) { config.axes("axis", options.axis); }

void list_min_max_norm(LayerConfig& config, constraints::MinMaxNormOptions& options) {
  config.option("min_value", options.min_value);
  config.option("max_value", options.max_value);
  config.option("rate", options.rate);
  config.axes("axis", options.axis);
}

const std::vector<FunctionClass<Constraint>>& classes_of(const Constraint*) {
  namespace from = constraints;
  static const std::vector<FunctionClass<Constraint>> classes{
      function_class<Constraint, from::NonNeg, std::monostate, list_nothing>("NonNeg"),
      function_class<Constraint, from::MaxNorm, from::MaxNormOptions, list_max_norm>("MaxNorm"),
      function_class<Constraint, from::UnitNorm, from::UnitNormOptions, list_unit_norm>("UnitNorm"),
      function_class<Constraint, from::MinMaxNorm, from::MinMaxNormOptions, list_min_max_norm>("MinMaxNorm"),
  };
  return classes;
}

// An option of `module` that is an object of one of its classes.
template <class Object>
void write_object(LayerConfig& config, const std::string& option, const Object& object, const char* module) {
  for (const FunctionClass<Object>& one : classes_of(&object)) {
    if (!one.is_of(object) || !is_same_name(object.name(), one.name)) continue;
    LayerConfig inner(str(config.layer(), ": its ", option));
    one.write(object, inner);
    return config.put(option, json_object({{"module", json_text(module)},
                                           {"class_name", json_text(one.name)},
                                           {"config", json_object(inner.options())},
                                           {"registered_name", "null"}}));
  }
  config.refuse(str("has ", option, " = ", object.name(), ", a function of this program, which Python lacks; take one ",
                    "of Keras's, or write the layer as a class of your own by custom_layers"));
}

template <class Object>
Object read_object(LayerConfig& config, const std::string& option) {
  const std::string json = config.json(option);
  const std::string name = str(config.layer(), ": its ", option);
  const auto members = json.starts_with('{') ? json_members(json, name) : std::map<std::string, std::string>();
  const auto class_name = members.find("class_name"), inner_json = members.find("config");
  if (class_name != members.end() && inner_json != members.end())
    for (const FunctionClass<Object>& one : classes_of(static_cast<const Object*>(nullptr)))
      if (JsonReader(class_name->second, name).text() == one.name) {
        LayerConfig inner(inner_json->second, name);
        Object object = one.make(inner);
        inner.finish();
        return object;
      }
  config.refuse(str("has ", option, " = ", json, ", which is not supported"));
}

template <class Object>
void optional_object(LayerConfig& config, const std::string& option, std::optional<Object>& value, const char* module) {
  if (config.is_written())
    value ? write_object(config, option, *value, module) : config.put(option, "null");
  else if (config.has(option))
    value = read_object<Object>(config, option);
}

bool is_same(const activations::Activation& a, const activations::Activation& b) {
  return a.function == b.function && a.parametrized == b.parametrized && a.parameters == b.parameters;
}

}  // namespace

void LayerConfig::option(const std::string& name, activations::Activation& value) {
  if (!is_written_ && !has(name)) {
    value = activations::linear;
    return;
  }
  try {
    if (is_written_) {
      if (is_same(value, activations::Activation(value.name))) return put(name, json_text(value.name));
    } else if (json(name).starts_with('"')) {
      value = text(name);
      return;
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;  // one of another name
  }
  if (is_written_)
    refuse(str("has ", name, " = ", value.name,
               ", which is not Keras's function of that name with its own parameters; ",
               "make it a layer behind this one, as layers::LeakyReLU, or write one of your own by custom_layers"));
  refuse(str("has ", name, " = ", json(name), ", which is not supported"));
}

void LayerConfig::option(const std::string& name, Initializer& value) {
  if (is_written_) return write_object(*this, name, value, "keras.initializers");
  if (!has(name)) return;
  try {
    value = read_object<Initializer>(*this, name);
  } catch (const Error& error) {  // every weight is in the file
    if (error.code() != ErrorCode::unimplemented) throw;
  }
}

void LayerConfig::option(const std::string& name, std::optional<Regularizer>& value) {
  optional_object(*this, name, value, "keras.regularizers");
}

void LayerConfig::option(const std::string& name, std::optional<Constraint>& value) {
  optional_object(*this, name, value, "keras.constraints");
}

}  // namespace tutti::keras
