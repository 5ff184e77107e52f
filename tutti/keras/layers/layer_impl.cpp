#include "tutti/keras/layers/layer_impl.h"

#include <torch/nn/module.h>

#include <cctype>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/strategy.h"

namespace tutti::keras::layers {
namespace {

// "MaxPooling2D" -> "max_pooling2d", "ReLU" -> "re_lu": Keras's rule.
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

}  // namespace

LayerImpl::LayerImpl(std::string type, std::string name, std::shared_ptr<torch::nn::Module> module)
    : type_(std::move(type)),
      name_(name.empty() ? snake_case(type_) : std::move(name)),
      has_default_name_(name_ == snake_case(type_)),
      module_(module ? std::move(module) : std::make_shared<torch::nn::Module>(type_)) {}

void LayerImpl::build(const Shape& input_shape) { (void)compute_output_shape(input_shape); }

void LayerImpl::build_once(const Shape& input_shape) {
  if (built_) return;
  const auto build_now = [&] {
    build(input_shape);
    built_ = true;
  };
  if (has_strategy() && !in_cross_replica_context())
    get_strategy().build(build_now);
  else
    build_now();
}

std::vector<Tensor> LayerImpl::losses() const {
  std::vector<Tensor> penalties;
  for (const Weight& weight : weights_)
    if (weight.regularizer) penalties.push_back((*weight.regularizer)(weight.value));
  return penalties;
}

void LayerImpl::rename(std::string name) {
  name_ = std::move(name);
  has_default_name_ = false;
}

Tensor LayerImpl::add_weight(const std::string& name, const Shape& shape, const WeightOptions& options) {
  Tensor value = options.initializer(shape);
  if (options.trainable)
    module_->register_parameter(name, value);
  else
    module_->register_buffer(name, value);
  track({.name = name,
         .value = value,
         .trainable = options.trainable,
         .regularizer = options.regularizer,
         .constraint = options.constraint});
  return value;
}

void LayerImpl::track(Weight weight) {
  if (weight.trainable) trainable_variables_.push_back(weight.value);
  weights_.push_back(std::move(weight));
}

void LayerImpl::track_layer(const LayerImpl& layer) {
  module_->register_module(layer.name(), layer.module());
  for (Weight weight : layer.weights()) {
    weight.name = str(layer.name(), '/', weight.name);
    track(std::move(weight));
  }
}

void LayerImpl::visit_state(StateVisitor& visitor) {
  if (!built_)
    throw Error(ErrorCode::failed_precondition,
                str(name_, ": has no weights yet to save or restore; call build, or use it once, before"));
  for (const Weight& weight : weights_) visitor.tensor(weight.name, weight.value);
}

void LayerImpl::refuse(const std::string& message) const {
  throw Error(ErrorCode::invalid_argument, str(name_, ": ", message));
}

}  // namespace tutti::keras::layers
