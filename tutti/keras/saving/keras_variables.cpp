#include "tutti/keras/saving/keras_variables.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <any>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layer_names.h"
#include "tutti/keras/layers/preprocessing/integer_lookup.h"
#include "tutti/keras/saving/graph_order.h"

namespace tutti::keras {
namespace {

using layers::LayerImpl;
using layers::Weight;
using LayerPtr = std::shared_ptr<LayerImpl>;

// A layer in another one, and where Keras has it there: "forward_layer", "layers/dense_1".
struct Part {
  std::string path;
  LayerPtr layer;
};

// As the elements of a list that is an attribute: by their classes, numbered.
std::vector<Part> elements(const std::string& attribute, const std::vector<LayerPtr>& layers) {
  std::map<std::string, int> counts;
  std::vector<Part> parts;
  for (const LayerPtr& layer : layers) {
    const std::string type = snake_case(layer->type());
    const int number = counts[type]++;
    parts.push_back({number == 0 ? str(attribute, '/', type) : str(attribute, '/', type, '_', number), layer});
  }
  return parts;
}

// Of a class of one's own. Keras visits its attributes by the alphabet, of a model among them `layers`, which has all
// of them: where the layers are whose names come later.
std::vector<Part> attributes(const LayerImpl& layer) {
  const auto* const model = dynamic_cast<const ModelImpl*>(&layer);
  std::vector<Part> parts;
  for (const LayerPtr& inner : layer.sublayers())
    if (!model || (inner->name() < "layers" && !inner->name().starts_with('_')))
      parts.push_back({inner->name(), inner});
  if (model) std::ranges::move(elements("layers", layers_of_keras(*model)), std::back_inserter(parts));
  return parts;
}

bool holds_weights_of_its_cell(const std::string& type) {
  return type == "SimpleRNN" || type == "LSTM" || type == "GRU" || type.starts_with("ConvLSTM");
}

// The layers in a layer, as the attributes of Keras's class.
std::vector<Part> parts_of(const LayerImpl& layer) {
  const std::string& type = layer.type();
  const std::vector<LayerPtr>& inner = layer.sublayers();
  if (type == "Sequential" || type == "Functional")
    return elements("layers", layers_of_keras(dynamic_cast<const ModelImpl&>(layer)));
  if (type == "SimpleRNNCell" || type == "LSTMCell" || type == "GRUCell" || holds_weights_of_its_cell(type)) return {};
  if (type == "StackedRNNCells") return elements("cells", inner);
  if (type == "Bidirectional") return {{"forward_layer", inner.at(0)}, {"backward_layer", inner.at(1)}};
  if (type == "RNN") return {{"cell", inner.at(0)}};
  if (type == "TimeDistributed" || type == "SpectralNormalization") return {{"layer", inner.at(0)}};
  return attributes(layer);
}

// Where Keras has a weight that belongs to the layer itself: in it, or in a layer that is hidden in it.
std::string hidden_part(const LayerImpl& layer, const Weight& weight) {
  if (holds_weights_of_its_cell(layer.type())) return "cell";
  const bool is_grouped = layer.type() == "GroupedQueryAttention";
  if (layer.type() != "MultiHeadAttention" && !is_grouped) return "";
  const std::string projection = weight.name.substr(0, weight.name.find('/'));
  return str(is_grouped ? "_" : "", projection == "attention_output" ? "output" : projection, "_dense");
}

// Of SpectralNormalization the kernel is one of the wrapper's variables, the first, and one of the layer's in it.
bool is_kept_twice(const LayerImpl& layer, const Weight& weight) {
  return layer.type() == "SpectralNormalization" &&
         (weight.name.ends_with("/kernel") || weight.name.ends_with("/embeddings"));
}

class VariableWalk {
 public:
  explicit VariableWalk(const ModelImpl& model) {
    for (const Weight& weight : model.weights()) names_[weight.value.unsafeGetTensorImpl()] = weight.name;
    visit(model, "");
    if (placed_.size() < names_.size())
      for (const auto& [weight, name] : names_)
        if (!placed_.contains(weight))
          model.refuse(str("the weight ", name, " belongs to no layer that its files could have it of"));
  }

  KerasVariables finish() { return std::move(found_); }

 private:
  // `path` ends in '/', or is empty. Of a layer in several places Keras keeps the first.
  void visit(const LayerImpl& layer, const std::string& path) {
    if (!seen_.insert(&layer).second) return;
    const std::vector<Part> parts = parts_of(layer);
    std::set<const at::TensorImpl*> of_parts;
    for (const Part& part : parts)
      for (const Weight& weight : part.layer->weights()) of_parts.insert(weight.value.unsafeGetTensorImpl());
    found_.groups.push_back(path + "vars");
    if (const auto* const lookup = std::any_cast<layers::IntegerLookupOptions>(&layer.made_from());
        lookup && lookup->output_mode == OutputMode::tf_idf && !lookup->idf_weights.empty())
      found_.constants[path + "vars/idf_weights"] = at::tensor(lookup->idf_weights);
    for (const bool trainable : {true, false})
      for (const Weight& weight : layer.weights())
        if (weight.trainable == trainable &&
            (is_kept_twice(layer, weight) || !of_parts.contains(weight.value.unsafeGetTensorImpl())))
          add(layer, weight, path);
    for (const Part& part : parts) visit(*part.layer, str(path, part.path, '/'));
  }

  void add(const LayerImpl& layer, const Weight& weight, const std::string& path) {
    const std::string hidden = hidden_part(layer, weight);
    const std::string group = str(path, hidden, hidden.empty() ? "" : "/", "vars");
    const auto* const impl = weight.value.unsafeGetTensorImpl();
    placed_.insert(impl);
    // Keras counts what the layer Normalization has seen in whole numbers.
    const bool is_count = layer.type() == "Normalization" && weight.name == "count";
    found_.variables.push_back({.path = str(group, '/', counts_[group]++),
                                .name = names_.at(impl),
                                .dtype = is_count ? at::kInt : weight.value.scalar_type(),
                                .value = weight.value});
  }

  std::map<const at::TensorImpl*, std::string> names_;  // of the model's weights
  std::set<const LayerImpl*> seen_;
  std::set<const at::TensorImpl*> placed_;
  std::map<std::string, int> counts_;  // of the variables of a group
  KerasVariables found_;
};

// The weights of a layer in the order of Keras's `weights`, in which those of a model's layers follow each other.
void append_weights(const LayerImpl& layer, std::set<const at::TensorImpl*>& seen, std::vector<Weight>& weights) {
  const auto* const model = dynamic_cast<const ModelImpl*>(&layer);
  for (const Weight& weight : layer.weights())
    if ((!model || weight.layer == model) && seen.insert(weight.value.unsafeGetTensorImpl()).second)
      weights.push_back(weight);
  if (!model) return;
  for (const auto& inner : layers_of_keras(*model)) append_weights(*inner, seen, weights);
}

}  // namespace

std::vector<LayerPtr> layers_of_keras(const ModelImpl& model) {
  if (model.type() == "Functional") return layers_in_graph_order(model.graph_inputs(), model.graph_outputs());
  std::vector<LayerPtr> layers;
  for (const layers::Layer& layer : model.layers())
    if (layer.impl()->type() != "InputLayer") layers.push_back(layer.impl());
  return layers;
}

std::vector<Weight> weights_in_order_of_keras(const LayerImpl& layer) {
  std::set<const at::TensorImpl*> seen;
  std::vector<Weight> weights;
  append_weights(layer, seen, weights);
  std::ranges::stable_partition(weights, [&](const Weight& weight) {
    return weight.trainable && layer.trainable() && weight.layer->trainable();
  });
  return weights;
}

std::vector<Tensor> trained_in_order_of_keras(const ModelImpl& model) {
  std::set<const at::TensorImpl*> trained;
  for (const Tensor& variable : model.trainable_variables()) trained.insert(variable.unsafeGetTensorImpl());
  std::vector<Tensor> variables;
  for (const Weight& weight : weights_in_order_of_keras(model))
    if (trained.contains(weight.value.unsafeGetTensorImpl())) variables.push_back(weight.value);
  return variables;
}

KerasVariables keras_variables(const ModelImpl& model) {
  if (!model.built())
    throw Error(ErrorCode::failed_precondition,
                str(model.name(), ": has no weights yet to save or restore; call build, or use it once, before"));
  return VariableWalk(model).finish();
}

}  // namespace tutti::keras
