#include "tutti/keras/saving/load_model.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/files/archive.h"
#include "tutti/files/hdf5_reader.h"
#include "tutti/keras/layer_names.h"
#include "tutti/keras/saving/builtin_layers.h"
#include "tutti/keras/saving/compile_json.h"
#include "tutti/keras/saving/keras_weights.h"
#include "tutti/keras/sequential.h"
#include "tutti/keras/weights_to_come.h"

namespace tutti::keras {
namespace {

using layers::Layer;
using Members = std::map<std::string, std::string>;

// What layers have in a file beside their options, by the path at which Keras has them: "layers/integer_lookup/".
struct Vocabularies {
  std::map<std::string, std::string> texts;  // a token a line
  std::shared_ptr<const files::Hdf5Reader> weights;

  // Options without a vocabulary, with that of the file.
  void add_to(Members& options, const std::string& path) const {
    const auto text = texts.find(path);
    if (text == texts.end() || (options.contains("vocabulary") && options.at("vocabulary") != "null")) return;
    std::vector<std::string> tokens;
    for (size_t begin = 0; begin < text->second.size();) {
      const size_t end = std::min(text->second.find('\n', begin), text->second.size());
      tokens.push_back(text->second.substr(begin, end - begin));
      begin = end + 1;
      if (tokens.back().empty() || tokens.back().find_first_not_of("-0123456789") != std::string::npos)
        throw Error(ErrorCode::data_loss,
                    str("load_model: line ", tokens.size(), " of the vocabulary of ", path, " is no integer"));
    }
    options["vocabulary"] = json_array(tokens);
    const std::string dataset = path + "vars/idf_weights";
    if (std::ranges::count(weights->datasets(), dataset) == 0) return;
    const Tensor all = weights->read(dataset).to(at::kDouble).reshape({-1}).contiguous();
    std::vector<std::string> numbers;
    for (int64_t i = 0; i < all.numel(); ++i) {
      const double number = all.const_data_ptr<double>()[i];
      if (!std::isfinite(number))
        throw Error(ErrorCode::data_loss, str("load_model: '", dataset, "' has a number that is not finite"));
      numbers.push_back(json_number(number));
    }
    options["idf_weights"] = json_array(numbers);
  }
};

// The names that Keras gives to the elements of a list in its files.
class ElementNames {
 public:
  std::string next(const std::string& class_name) {
    const std::string name = snake_case(class_name);
    const int number = counts_[name]++;
    return number == 0 ? name : str(name, '_', number);
  }

 private:
  std::map<std::string, int> counts_;
};

// A place in the graph: the output of a layer's call.
struct PlaceName {
  std::string layer;
  int64_t call = 0;
  int64_t output = 0;
  friend auto operator<=>(const PlaceName&, const PlaceName&) = default;
};

class ModelReader {
 public:
  ModelReader(std::string file, const LoadModelOptions& options, const Vocabularies& vocabularies)
      : file_(std::move(file)), options_(options), vocabularies_(vocabularies) {}

  Model read_model(const std::string& json) {
    const Members object = members(json);
    const std::string class_name = text(object, "class_name");
    if (class_name != "Sequential" && class_name != "Functional")
      unsupported(str("the model is a ", class_name, "; Sequential and Functional models are supported"));
    Model model = model_of(object, class_name);
    if (options_.compile && is_there(object, "compile_config")) compile(model, object.at("compile_config"));
    return model;
  }

 private:
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(ErrorCode::unimplemented, str("load_model: ", file_, ": ", what));
  }
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorCode::data_loss, str("load_model: ", file_, ": ", what));
  }

  Members members(const std::string& json) const { return json_members(json, file_); }
  const std::string& member(const Members& object, const std::string& key) const {
    const auto found = object.find(key);
    if (found == object.end()) damaged(str("an object in config.json has no ", key));
    return found->second;
  }
  std::string text(const Members& object, const std::string& key) const {
    return JsonReader(member(object, key), file_).text();
  }
  static bool is_there(const Members& object, const std::string& key) {
    const auto found = object.find(key);
    return found != object.end() && found->second != "null";
  }

  Model model_of(const Members& object, const std::string& class_name) {
    const Members config = members(member(object, "config"));
    const Model model = class_name == "Sequential" ? sequential(config) : functional(config);
    if (is_there(config, "trainable") && config.at("trainable") == "false") model.set_trainable(false);
    return model;
  }

  void compile(const Model& model, const std::string& json) const {
    try {
      model.compile(compile_options_of(json, model.model().output_names(), str("load_model: ", file_)));
    } catch (const Error& error) {  // of outputs that the model lacks
      if (error.code() != ErrorCode::invalid_argument) throw;
      damaged(error.what());
    }
  }

  Model sequential(const Members& config) {
    std::vector<Layer> layers;
    ElementNames names;
    for (const std::string& layer : json_elements(member(config, "layers"), file_))
      layers.push_back(
          make_layer_at(str(place_, "layers/", names.next(text(members(layer), "class_name")), '/'), layer));
    const Sequential model(std::move(layers), text(config, "name"));
    if (!model.built() && is_there(config, "build_input_shape"))
      model.build(LayerConfig(str("{\"shape\":", config.at("build_input_shape"), '}'), file_).shape("shape"));
    return model;
  }

  // Of which Keras has what it keeps under that path.
  Layer make_layer_at(const std::string& place, const std::string& json) {
    const std::string before = std::exchange(place_, place);
    Layer layer = make_layer(json);
    place_ = before;
    return layer;
  }

  // A layer that is in the file more than once is one layer, where Keras has given it a number.
  Layer make_layer(const std::string& json) {
    const Members object = members(json);
    if (!is_there(object, "shared_object_id")) return make_new_layer(object);
    const std::string& id = object.at("shared_object_id");
    if (const auto found = shared_.find(id); found != shared_.end()) return found->second;
    return shared_.emplace(id, make_new_layer(object)).first->second;
  }

  Layer make_new_layer(const Members& object) {
    const std::string class_name = text(object, "class_name");
    const Members calls = arguments_of_calls(object);
    if (class_name == "Sequential" || class_name == "Functional") {
      for (const auto& [argument, value] : calls)
        unsupported(str("the model ", text(object, "name"), " is called with ", argument, " = ", value,
                        ", which is not supported"));
      return model_of(object, class_name);
    }
    Members plain = members(member(object, "config"));
    if (class_name == "IntegerLookup") vocabularies_.add_to(plain, place_);
    const std::string json = json_object(plain);
    const std::string name = is_there(plain, "name") ? text(plain, "name") : class_name;
    LayerConfig config(json, str("load_model: ", file_, ": the layer ", name, " (", class_name, ')'), calls);
    config.skip({"name", "trainable", "dtype"});

    const DTypePolicyGuard policy(makes_integers(class_name) ? DTypePolicy::of_weights : policy_of(plain, config));
    const Layer layer = layer_of(class_name, object, config);
    config.finish();
    if (is_there(plain, "name")) layer.impl()->rename(name);
    if (is_there(plain, "trainable") && plain.at("trainable") == "false") layer.set_trainable(false);
    return layer;
  }

  Layer layer_of(const std::string& class_name, const Members& object, LayerConfig& config) {
    if (is_there(object, "registered_name")) {
      const std::string registered = text(object, "registered_name");
      const auto custom = options_.custom_layers.find(registered);
      if (custom != options_.custom_layers.end()) return custom->second(config);
      if (registered.find('>') != std::string::npos)
        config.refuse(str("is registered as ", registered, "; name a function that makes it in custom_layers"));
    }
    const BuiltinLayer* const builtin = builtin_layer(class_name);
    if (class_name == "StringLookup" || class_name == "TextVectorization")
      config.refuse("takes text, which is outside of models here; Python may save the model of the layers behind it");
    if (!builtin) config.refuse("is of a class that is not supported; custom_layers may have a function that makes it");
    return builtin->make(config, [this](const std::string& json) { return make_layer_at("", json); });
  }

  // And whose dtype is that of the result.
  static bool makes_integers(const std::string& class_name) {
    return class_name == "Hashing" || class_name == "IntegerLookup" || class_name == "Discretization" ||
           class_name == "CategoryEncoding";
  }

  // What an InputLayer has is the dtype of what goes in, which is no policy.
  DTypePolicy policy_of(const Members& config, const LayerConfig& layer) const {
    if (!is_there(config, "dtype") || config.contains("batch_shape")) return DTypePolicy::of_weights;
    const std::string& dtype = config.at("dtype");
    const std::string name = dtype.starts_with('{') ? text(members(member(members(dtype), "config")), "name")
                                                    : JsonReader(dtype, file_).text();
    static const std::map<std::string, DTypePolicy> policies{{"float32", DTypePolicy::float32},
                                                             {"float64", DTypePolicy::float64},
                                                             {"float16", DTypePolicy::float16},
                                                             {"bfloat16", DTypePolicy::bfloat16},
                                                             {"mixed_float16", DTypePolicy::mixed_float16},
                                                             {"mixed_bfloat16", DTypePolicy::mixed_bfloat16}};
    const auto found = policies.find(name);
    if (found == policies.end()) layer.refuse(str("has the dtype policy ", name, ", which is not supported"));
    return found->second;
  }

  // --- Graphs.
  struct Call {
    Layer layer;
    PlaceName name;
    std::vector<PlaceName> inputs;
  };

  Model functional(const Members& config) {
    std::map<PlaceName, SymbolicTensor> places;
    std::vector<Call> open;
    std::set<std::string> models;
    ElementNames names;
    for (const std::string& json : json_elements(member(config, "layers"), file_)) {
      const Members object = members(json);
      const std::string name = text(object, "name");
      if (text(object, "class_name") == "InputLayer") {
        places.insert({PlaceName{name}, input(object)});
        continue;
      }
      const Layer layer = make_layer_at(str(place_, "layers/", names.next(text(object, "class_name")), '/'), json);
      if (layer.impl()->type() == "Functional") models.insert(name);
      for (const std::string& node : json_elements(member(object, "inbound_nodes"), file_)) {
        const auto call = static_cast<int64_t>(
            std::ranges::count_if(open, [&](const Call& other) { return other.name.layer == name; }));
        open.push_back({layer, {name, call}, inputs_of(node, name)});
      }
    }
    call_all(std::move(open), places);
    std::vector<SymbolicTensor> inputs, outputs;
    for (const PlaceName& place : ends(member(config, "input_layers"))) inputs.push_back(found(places, place));
    for (PlaceName place : ends(member(config, "output_layers"))) {
      if (models.contains(place.layer)) --place.call;  // here alone Keras counts a model's own graph as its first call
      outputs.push_back(found(places, place));
    }
    return Model({.inputs = inputs, .outputs = outputs, .name = text(config, "name")});
  }

  SymbolicTensor input(const Members& object) {
    const Members config = members(member(object, "config"));
    const Shape shape =
        LayerConfig(member(object, "config"), str("load_model: ", file_, ": an InputLayer")).shape("batch_shape");
    if (shape.empty()) damaged("an InputLayer has a batch_shape without axes");
    return Input({.shape = {shape.begin() + 1, shape.end()}, .batch = shape[0], .name = text(config, "name")});
  }

  // Each as soon as what it takes is there.
  void call_all(std::vector<Call> open, std::map<PlaceName, SymbolicTensor>& places) const {
    while (!open.empty()) {
      const size_t before = open.size();
      std::erase_if(open, [&](const Call& call) {
        std::vector<SymbolicTensor> arguments;
        for (const PlaceName& input : call.inputs) {
          const auto place = places.find(input);
          if (place == places.end()) return false;
          arguments.push_back(place->second);
        }
        const std::vector<SymbolicTensor> outputs = call.layer.outputs(arguments);
        for (size_t i = 0; i < outputs.size(); ++i)
          places.insert({PlaceName{call.name.layer, call.name.call, static_cast<int64_t>(i)}, outputs[i]});
        return true;
      });
      if (open.size() == before) damaged(str("the layer ", open[0].name.layer, " takes what no layer gives"));
    }
  }

  const SymbolicTensor& found(const std::map<PlaceName, SymbolicTensor>& places, const PlaceName& place) const {
    const auto one = places.find(place);
    if (one == places.end()) damaged(str("the model has no output ", place.output, " of ", place.layer));
    return one->second;
  }

  static bool is_place(const std::string& argument) { return argument.starts_with('{') || argument.starts_with('['); }

  // As what a call says where nobody asks for it; of a model of several inputs their masks are [null, null].
  bool says_nothing(const std::string& argument) const {
    if (argument == "null" || argument == "false") return true;
    return argument.starts_with('[') &&
           std::ranges::all_of(json_elements(argument, file_), [](const auto& one) { return one == "null"; });
  }

  // What all calls of a layer say beside their inputs, and is not what they say by themselves.
  Members arguments_of_calls(const Members& object) const {
    std::optional<Members> all;
    if (!is_there(object, "inbound_nodes")) return {};
    for (const std::string& node : json_elements(object.at("inbound_nodes"), file_)) {
      Members arguments = members(member(members(node), "kwargs"));
      std::erase_if(arguments,
                    [&](const auto& argument) { return says_nothing(argument.second) || is_place(argument.second); });
      if (all && *all != arguments)
        unsupported(str("the layer ", text(object, "name"), " is called with other arguments each time, which is not ",
                        "supported"));
      all = std::move(arguments);
    }
    return all.value_or(Members());
  }

  // The inputs of a call: places, or lists of them, and those that have names.
  std::vector<PlaceName> inputs_of(const std::string& node, const std::string& layer) const {
    const Members object = members(node);
    std::vector<PlaceName> inputs;
    const auto add = [&](const std::string& argument) {
      if (!argument.starts_with('[')) return inputs.push_back(place_of(argument, layer));
      for (const std::string& one : json_elements(argument, file_)) inputs.push_back(place_of(one, layer));
    };
    for (const std::string& argument : json_elements(member(object, "args"), file_)) add(argument);
    Members named = members(member(object, "kwargs"));
    std::erase_if(named,
                  [&](const auto& argument) { return says_nothing(argument.second) || !is_place(argument.second); });
    for (const char* const name : {"value", "key", "attention_mask", "initial_state"}) {
      const auto found = named.find(name);
      if (found == named.end()) continue;
      if (found->first == "attention_mask" && inputs.size() == 2) inputs.push_back(inputs[1]);  // values are the keys
      add(found->second);
      named.erase(found);
    }
    for (const auto& [name, value] : named)
      unsupported(str("the layer ", layer, " is called with ", name, " = ", value, ", which is not supported"));
    return inputs;
  }

  PlaceName place_of(const std::string& argument, const std::string& layer) const {
    const auto refuse = [&] {
      unsupported(str("the layer ", layer, " is called on ", argument, ", which is no place"));
    };
    if (!argument.starts_with('{')) refuse();
    const Members object = members(argument);
    if (text(object, "class_name") != "__keras_tensor__") refuse();
    return history(member(members(member(object, "config")), "keras_history"));
  }

  // ["dense", 0, 0]
  PlaceName history(const std::string& json) const {
    const std::vector<std::string> parts = json_elements(json, file_);
    if (parts.size() != 3) damaged(str(json, " is no place"));
    return {JsonReader(parts[0], file_).text(), JsonReader(parts[1], file_).integer(),
            JsonReader(parts[2], file_).integer()};
  }

  // One place, or a list of them.
  std::vector<PlaceName> ends(const std::string& json) const {
    if (!json.starts_with('[')) unsupported("the inputs or outputs are a dictionary, which is not supported");
    const std::vector<std::string> elements = json_elements(json, file_);
    if (!elements.empty() && elements[0].starts_with('"')) return {history(json)};
    std::vector<PlaceName> places;
    for (const std::string& element : elements) places.push_back(history(element));
    return places;
  }

  std::string file_;
  const LoadModelOptions& options_;
  const Vocabularies& vocabularies_;
  std::string place_;  // of the layer that is made, where that is known
  std::map<std::string, Layer> shared_;
};

}  // namespace

Model load_model(const std::filesystem::path& file, const LoadModelOptions& options) {
  std::optional<std::string> config, weights;
  constexpr std::string_view kAssets = "assets/", kVocabulary = "vocabulary.txt";
  const auto is_vocabulary = [&](const std::string& member) {
    return member.starts_with(kAssets) && member.ends_with(kVocabulary);
  };
  Vocabularies vocabularies;
  const auto wanted = [&](const std::string& member) {
    return member == "config.json" || member == "model.weights.h5" || is_vocabulary(member);
  };
  const auto keep = [&](const std::string& member, std::string bytes) {
    if (is_vocabulary(member))
      vocabularies.texts[member.substr(kAssets.size(), member.size() - kAssets.size() - kVocabulary.size())] =
          std::move(bytes);
    else
      (member == "config.json" ? config : weights) = std::move(bytes);
  };
  files::read_archive(file, wanted, keep, files::ArchiveFormat::zip);
  if (!config || !weights)
    throw Error(ErrorCode::data_loss,
                str("load_model: '", file.string(), "' has no ", config ? "model.weights.h5" : "config.json"));
  vocabularies.weights = std::make_shared<const files::Hdf5Reader>(std::move(*weights), file.string());
  const WeightsToCome to_come;
  const Model model = ModelReader(str('\'', file.string(), '\''), options, vocabularies).read_model(*config);
  load_keras_weights(model, file, vocabularies.weights, options.compile ? KerasState::all : KerasState::weights);
  return model;
}

}  // namespace tutti::keras
