#include "tutti/keras/saving/model_json.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/keras/saving/builtin_layers.h"
#include "tutti/keras/saving/compile_json.h"
#include "tutti/keras/saving/graph_order.h"

namespace tutti::keras {
namespace {

using layers::LayerImpl;
using LayerPtr = std::shared_ptr<LayerImpl>;
using JsonObject = std::map<std::string, std::string>;

// Where Keras has a place of a graph: which output of which call of a layer.
struct PlaceInKeras {
  std::string layer;
  int64_t call = 0;
  size_t output = 0;
};

std::string json_bool(bool value) { return value ? "true" : "false"; }
std::string json_history(const PlaceInKeras& place) {
  return json_array({json_text(place.layer), str(place.call), str(place.output)});
}

// In which a layer computes, by Keras's name. Where no policy was asked for its weights say.
std::string policy_name(const LayerImpl& layer) {
  switch (layer.dtype_policy()) {
    case DTypePolicy::float32: return "float32";
    case DTypePolicy::float64: return "float64";
    case DTypePolicy::bfloat16: return "bfloat16";
    case DTypePolicy::float16: return "float16";
    case DTypePolicy::mixed_bfloat16: return "mixed_bfloat16";
    case DTypePolicy::mixed_float16: return "mixed_float16";
    case DTypePolicy::of_weights: break;
  }
  at::ScalarType dtype = c10::get_default_dtype_as_scalartype();
  for (const layers::Weight& weight : layer.weights())
    if (weight.value.is_floating_point()) dtype = weight.value.scalar_type();
  switch (dtype) {
    case at::kDouble: return "float64";
    case at::kHalf: return "float16";
    case at::kBFloat16: return "bfloat16";
    default: return "float32";
  }
}

// How Keras calls layers of several inputs.
enum class CallForm {
  list,          // layer([a, b])
  attention,     // layer(query, value, key, attention_mask=mask)
  first_states,  // layer(x, initial_state=[h, c])
};

CallForm call_form(const std::string& type) {
  if (type == "MultiHeadAttention" || type == "GroupedQueryAttention") return CallForm::attention;
  static const std::set<std::string> with_states{"SimpleRNN",  "LSTM",       "GRU",        "RNN",
                                                 "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "Bidirectional"};
  return with_states.contains(type) ? CallForm::first_states : CallForm::list;
}

// Which take a list of one input too.
bool takes_lists(const std::string& type) {
  static const std::set<std::string> merging{"Add",     "Subtract", "Multiply",    "Average",   "Maximum",
                                             "Minimum", "Dot",      "Concatenate", "Attention", "AdditiveAttention"};
  return merging.contains(type);
}

// The dtype of an input, which layers of Tutti's do not say, by who takes it.
std::string input_dtype(const ModelImpl& model, const std::string& taker, bool is_attention_mask = false) {
  if (is_attention_mask) return "bool";
  if (taker == "Embedding" || taker == "CategoryEncoding") return "int32";
  if (taker == "IntegerLookup" || taker == "Hashing") return "int64";
  const bool is_double = std::ranges::any_of(
      model.weights(), [](const layers::Weight& weight) { return weight.value.scalar_type() == at::kDouble; });
  return is_double ? "float64" : "float32";
}

class ModelJson {
 public:
  ModelJson(const std::string& file, const SaveModelOptions& options)
      : label_(str("save: '", file, "': ")), options_(options) {}

  std::string write(const ModelImpl& model) {
    JsonObject json = describe_model(model);
    if (options_.compile && is_compiled(model))
      json["compile_config"] = compile_json(model.compiled(), model.output_names(), str(label_, model.name()));
    return json_object(json);
  }

 private:
  struct Description {
    JsonObject json;
    JsonObject calls = {};  // what all calls of the layer say beside their inputs
  };

  [[noreturn]] void refuse(const LayerImpl& layer, const std::string& what) const {
    throw Error(ErrorCode::unimplemented, str(label_, "the layer ", layer.name(), " (", layer.type(), ") ", what));
  }

  static bool is_compiled(const ModelImpl& model) {
    const CompileOptions& options = model.compiled();
    const auto has_metrics = [](const OutputMetrics& all) { return !all.only().empty() || !all.by_name().empty(); };
    return options.optimizer || !options.loss.empty() || has_metrics(options.metrics) ||
           has_metrics(options.weighted_metrics);
  }

  // Keras does not find its way in a file that has one layer in two models.
  void visit_once(const LayerImpl& layer) {
    if (!seen_.insert(&layer).second)
      refuse(layer, "is in two models or layers of this one; Keras can share a layer within one graph alone");
    if (!is_utf8(layer.name())) refuse(layer, "has a name that is not UTF-8; give it another one");
  }

  JsonObject describe_model(const ModelImpl& model) {
    visit_once(model);
    const bool is_sequential = model.type() == "Sequential";
    if (!is_sequential && model.type() != "Functional")
      refuse(model,
             "is a class of your own, whose code Python lacks; a functional model of its layers can be written, and "
             "save_weights writes its weights for a class of Python's");
    JsonObject config = is_sequential ? sequential(model) : functional(model);
    config["name"] = json_text(model.name());
    config["trainable"] = json_bool(model.trainable());
    return {{"module", json_text(is_sequential ? "keras" : "keras.src.models.functional")},
            {"class_name", json_text(model.type())},
            {"registered_name", is_sequential ? "null" : json_text("Functional")},
            {"config", json_object(config)}};
  }

  Description describe(const LayerPtr& layer) {
    if (const auto* const model = dynamic_cast<const ModelImpl*>(layer.get())) return {.json = describe_model(*model)};
    visit_once(*layer);
    LayerConfig config(str(label_, "the layer ", layer->name(), " (", layer->type(), ')'));
    const auto custom = options_.custom_layers.find(layer->type());
    JsonObject json = custom != options_.custom_layers.end() ? describe_custom(layer, custom->second, config)
                                                             : describe_builtin(*layer, config);
    config.put("name", json_text(layer->name()));
    // Some of Keras's classes without weights do not take it.
    if (!layer->weights().empty()) config.put("trainable", json_bool(layer->trainable()));
    if (!config.says("dtype")) config.put("dtype", json_text(policy_name(*layer)));
    json["config"] = json_object(config.options());
    return {.json = std::move(json), .calls = config.calls()};
  }

  static JsonObject describe_custom(const LayerPtr& layer, const CustomLayerWriter& custom, LayerConfig& config) {
    custom.write(layers::Layer(layer), config);
    const std::string& name = custom.registered_name;
    return {{"module", "null"},
            {"class_name", json_text(name.substr(name.find('>') + 1))},
            {"registered_name", json_text(name)}};
  }

  JsonObject describe_builtin(const LayerImpl& layer, LayerConfig& config) {
    const std::string class_name = layer.type() == "GroupedQueryAttention" ? "GroupQueryAttention" : layer.type();
    const BuiltinLayer* const builtin = builtin_layer(class_name);
    if (!builtin)
      refuse(layer,
             "is of a class that these files are not written of; custom_layers may have a function that writes it, "
             "and save_weights writes its weights");
    builtin->write(layer, config, [this](const LayerPtr& inner) { return json_object(describe_uncalled(inner)); });
    return {{"module", json_text("keras.layers")}, {"class_name", json_text(class_name)}, {"registered_name", "null"}};
  }

  // One that is called by what it is in, with its inputs alone.
  JsonObject describe_uncalled(const LayerPtr& layer) {
    Description description = describe(layer);
    for (const auto& [argument, value] : description.calls)
      refuse(*layer,
             str("has ", argument, ", which Keras's calls say and not its layers; call it in a functional model"));
    return std::move(description.json);
  }

  JsonObject describe_input(const LayerPtr& layer, const std::string& dtype) {
    LayerConfig config(label_);
    JsonObject json = describe_builtin(*layer, config);
    std::string name = layer->name();
    config.option("name", name);
    config.put("dtype", json_text(dtype));
    json["config"] = json_object(config.options());
    return json;
  }

  JsonObject sequential(const ModelImpl& model) {
    std::vector<std::string> layers;
    for (size_t i = 0; i < model.layers().size(); ++i) {
      const LayerPtr& layer = model.layers()[i].impl();
      const std::string next = i + 1 < model.layers().size() ? model.layers()[i + 1].impl()->type() : "";
      if (call_form(layer->type()) == CallForm::attention || takes_lists(layer->type()))
        refuse(*layer, "takes several inputs in Keras, and a Sequential has one; call it in a functional model");
      layers.push_back(json_object(layer->type() == "InputLayer" ? describe_input(layer, input_dtype(model, next))
                                                                 : describe_uncalled(layer)));
    }
    return {{"layers", json_array(layers)}, {"build_input_shape", json_shape(model.graph_inputs()[0].shape())}};
  }

  // --- Graphs.
  using Places = std::map<std::pair<const Node*, size_t>, PlaceInKeras>;

  static const PlaceInKeras& history(const Places& places, const SymbolicTensor& place) {
    return places.at({&place.node(), place.output()});
  }

  // An input as the graph's calls tell of it.
  static std::string dtype_of_input(const ModelImpl& model, const SymbolicTensor& input,
                                    const std::vector<const Node*>& calls) {
    constexpr std::ptrdiff_t kMask = 3;  // among the inputs of attention
    for (const Node* const call : calls) {
      const auto argument = std::ranges::find(call->inputs, input);
      if (argument == call->inputs.end()) continue;
      const std::string& taker = call->layer->type();
      return input_dtype(model, taker,
                         call_form(taker) == CallForm::attention && argument - call->inputs.begin() == kMask);
    }
    return input_dtype(model, "");
  }

  JsonObject functional(const ModelImpl& model) {
    const std::vector<SymbolicTensor> inputs = model.graph_inputs(), outputs = model.graph_outputs();
    const std::vector<const Node*> calls = calls_in_graph_order(inputs, outputs);
    Places places;
    std::vector<std::pair<LayerPtr, std::vector<const Node*>>> layers;  // with their calls
    for (const Node* const call : calls) {
      auto entry = std::ranges::find(layers, call->layer, [](const auto& one) { return one.first; });
      if (entry == layers.end()) entry = layers.insert(layers.end(), {call->layer, {}});
      const auto number = static_cast<int64_t>(entry->second.size());
      for (size_t i = 0; i < call->output_shapes.size(); ++i)
        places[{call, i}] = {.layer = call->layer->name(), .call = number, .output = i};
      entry->second.push_back(call);
    }
    std::vector<std::string> json;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const LayerPtr& layer = model.layers()[i].impl();  // also where the graph is cut
      places[{&inputs[i].node(), inputs[i].output()}] = {.layer = layer->name()};
      json.push_back(node_of_graph(*layer, describe_input(layer, dtype_of_input(model, inputs[i], calls)), {}));
    }
    for (const auto& [layer, its_calls] : layers) {
      const Description description = describe(layer);
      std::vector<std::string> nodes;
      for (const Node* const call : its_calls) nodes.push_back(json_call(*call, places, description.calls));
      json.push_back(node_of_graph(*layer, description.json, nodes));
    }
    check_names(model);
    return {{"layers", json_array(json)},
            {"input_layers", json_ends(inputs, places, /*are_outputs=*/false)},
            {"output_layers", json_ends(outputs, places, /*are_outputs=*/true)}};
  }

  static std::string node_of_graph(const LayerImpl& layer, JsonObject json, const std::vector<std::string>& calls) {
    json["name"] = json_text(layer.name());
    json["inbound_nodes"] = json_array(calls);
    return json_object(json);
  }

  static std::string json_tensor(const SymbolicTensor& place, const Places& places) {
    return json_object({{"class_name", json_text("__keras_tensor__")},
                        {"config", json_object({{"shape", json_shape(place.shape())},
                                                {"dtype", json_text("float32")},  // Keras asks the place itself
                                                {"keras_history", json_history(history(places, place))}})}});
  }

  static std::string json_call(const Node& call, const Places& places, JsonObject arguments) {
    std::vector<std::string> inputs;
    for (const SymbolicTensor& input : call.inputs) inputs.push_back(json_tensor(input, places));
    const std::string& type = call.layer->type();
    const auto form = call_form(type);
    if (form == CallForm::attention) {
      if (inputs.size() == 1) inputs.push_back(inputs[0]);
      if (inputs.size() == 4) {
        arguments["attention_mask"] = inputs[3];
        inputs.pop_back();
      }
    } else if (form == CallForm::first_states && inputs.size() > 1) {
      arguments["initial_state"] = json_array({inputs.begin() + 1, inputs.end()});
      inputs.resize(1);
    } else if (inputs.size() > 1 || takes_lists(type)) {
      inputs = {json_array(inputs)};
    }
    return json_object({{"args", json_array(inputs)}, {"kwargs", json_object(arguments)}});
  }

  static std::string json_ends(const std::vector<SymbolicTensor>& ends, const Places& places, bool are_outputs) {
    std::vector<std::string> json;
    for (const SymbolicTensor& end : ends) {
      PlaceInKeras place = history(places, end);
      // Here alone Keras counts a model's own graph as its first call.
      if (are_outputs && end.node().layer->type() == "Functional") ++place.call;
      json.push_back(json_history(place));
    }
    return json.size() == 1 ? json[0] : json_array(json);
  }

  // A layer may have got another name since the model was made: in another model.
  void check_names(const ModelImpl& model) const {
    std::set<std::string> names;
    for (const layers::Layer& layer : model.layers())
      if (!names.insert(layer.name()).second)
        refuse(*layer.impl(),
               str("has the name of another layer of ", model.name(), "; give one of them another name"));
  }

  std::string label_;
  const SaveModelOptions& options_;
  std::set<const LayerImpl*> seen_;
};

}  // namespace

std::string model_json(const ModelImpl& model, const std::string& file, const SaveModelOptions& options) {
  return ModelJson(file, options).write(model);
}

}  // namespace tutti::keras
