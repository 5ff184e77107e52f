#include "tutti/keras/layers/layer_impl.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/strategy.h"
#include "tutti/keras/layer_names.h"
#include "tutti/keras/layers/call_context_internal.h"
#include "tutti/keras/layers/torch_errors_internal.h"
#include "tutti/keras/variable_notes.h"
#include "tutti/keras/weight_source.h"
#include "tutti/keras/weights_to_come.h"
#include "tutti/tensor/view.h"

namespace tutti::keras::layers {
namespace {

// LibTorch's casts of weights and of what meets them, to `dtype`, or no casts, while it lives. Without LibTorch's cache
// of casts, which would keep those of the weights beyond the update.
class AutocastGuard {
 public:
  AutocastGuard(at::DeviceType device, std::optional<at::ScalarType> dtype)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        was_cached_(at::autocast::is_autocast_cache_enabled()),
        dtype_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, dtype.has_value());
    if (dtype) at::autocast::set_autocast_dtype(device, *dtype);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastGuard() {
    at::autocast::set_autocast_cache_enabled(was_cached_);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
    at::autocast::set_autocast_enabled(device_, was_enabled_);
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  at::DeviceType device_;
  bool was_enabled_, was_cached_;
  at::ScalarType dtype_before_;
};

void cast_floating(std::vector<Tensor>& tensors, at::ScalarType dtype) {
  for (Tensor& tensor : tensors)
    if (tensor.is_floating_point()) tensor = tensor.to(dtype);
}

// The shape with each unknown extent set.
Shape with_extents(Shape shape, int64_t extent) {
  std::ranges::replace(shape, kUnknown, extent);
  return shape;
}

}  // namespace

LayerImpl::LayerImpl(std::string type, std::string name, std::shared_ptr<torch::nn::Module> module)
    : type_(std::move(type)),
      source_(WeightSource::current()),
      name_(name.empty() ? snake_case(type_) : std::move(name)),
      has_default_name_(name_ == snake_case(type_)),
      module_(module ? std::move(module) : std::make_shared<torch::nn::Module>(type_)) {
  if (!has_default_name_) check_name(name_);
  if (!source_) return;
  name_ = source_->name_layer(name_);
  has_default_name_ = false;  // no model gives it another one
}

void LayerImpl::check_name(const std::string& name) const {
  if (name.find_first_of("./") != std::string::npos)
    refuse(
        str("the name \"", name, "\" has a '.' or '/', which separate the parts of a weight's path; leave them out"));
}

void LayerImpl::build(const Shape& input_shape) { (void)compute_output_shapes({input_shape}); }

void LayerImpl::build_all(const std::vector<Shape>& input_shapes) {
  if (input_shapes.size() != 1) refuse(str("takes one input, not ", input_shapes.size()));
  build(input_shapes[0]);
}

Tensor LayerImpl::call(const Tensor&, const CallOptions&) const {
  throw Error(
      ErrorCode::unimplemented,
      str(name_, ": the class behind it overrides neither call nor call_all; one of them says what the layer does"));
}

std::vector<Tensor> LayerImpl::call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const {
  if (inputs.size() != 1) refuse(str("takes one input, not ", inputs.size()));
  return {call(inputs[0], options)};
}

Shape LayerImpl::compute_output_shape(const Shape& input_shape) const { return shapes_by_calling({input_shape})[0]; }

std::vector<Shape> LayerImpl::compute_output_shapes(const std::vector<Shape>& input_shapes) const {
  if (input_shapes.size() != 1) return shapes_by_calling(input_shapes);
  return {compute_output_shape(input_shapes[0])};
}

std::vector<Shape> LayerImpl::shapes_by_calling(const std::vector<Shape>& input_shapes) const {
  const c10::NoGradGuard no_grad;
  const auto shapes_with = [&](int64_t extent) {
    std::vector<Tensor> zeros;
    for (const Shape& shape : input_shapes) zeros.push_back(at::zeros(with_extents(shape, extent)));
    cast_inputs(zeros);
    const CallOptions options;
    const CallContext context(zeros, options, {.trial = true});
    return shapes_of(with_layers_name(*this, zeros, [&] { return call_all(zeros, options); }));
  };
  std::vector<Shape> shapes = shapes_with(2);
  const bool all_known =
      std::ranges::all_of(input_shapes, [](const Shape& shape) { return std::ranges::count(shape, kUnknown) == 0; });
  if (all_known) return shapes;
  const std::vector<Shape> others = shapes_with(3);
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].size() != others[i].size())
      refuse("the rank of its output depends on the input's extents; override compute_output_shape");
    for (size_t axis = 0; axis < shapes[i].size(); ++axis)
      if (shapes[i][axis] != others[i][axis]) shapes[i][axis] = kUnknown;
  }
  return shapes;
}

std::vector<Tensor> LayerImpl::compute_masks(const std::vector<Tensor>&, const std::vector<Tensor>& masks) const {
  if (masks.empty() || !masks[0].defined()) return {};
  return supports_masking() ? std::vector{masks[0]} : std::vector<Tensor>{};
}

std::vector<MaskedTensor> LayerImpl::forward(const std::vector<MaskedTensor>& inputs,
                                             const CallOptions& options) const {
  std::vector<Tensor> tensors;
  tensors.reserve(inputs.size());
  CallOptions own{.training = options.training, .added_losses = options.added_losses};
  for (const MaskedTensor& input : inputs) {
    tensors.push_back(input.tensor);
    if (input.mask.defined()) own.masks.resize(inputs.size());
  }
  for (size_t i = 0; i < own.masks.size(); ++i) own.masks[i] = inputs[i].mask;

  cast_inputs(tensors);
  std::vector<Tensor> outputs = call_in_own_dtype(tensors, own);
  add_activity_losses(outputs, options);
  const std::vector<Tensor> masks = compute_masks(tensors, own.masks);
  std::vector<MaskedTensor> result;
  result.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    result.push_back({std::move(outputs[i]), i < masks.size() ? masks[i] : Tensor()});
  return result;
}

void LayerImpl::cast_inputs(std::vector<Tensor>& inputs) const {
  const InputCast cast = input_cast();
  if (cast == InputCast::none) return;
  std::optional<at::ScalarType> dtype = compute_dtype(dtype_policy_);
  if (!dtype) {
    const auto own = std::ranges::find_if(
        weights_, [this](const Weight& weight) { return weight.layer == this && weight.value.is_floating_point(); });
    if (own != weights_.end()) dtype = own->value.scalar_type();
  }
  if (dtype) cast_floating(inputs, *dtype);
  if (cast != InputCast::numbers) return;
  for (Tensor& input : inputs)
    if (!input.is_floating_point() && !input.is_complex())
      input = input.to(dtype.value_or(c10::get_default_dtype_as_scalartype()));
}

std::vector<Tensor> LayerImpl::call_in_own_dtype(const std::vector<Tensor>& inputs, const CallOptions& options) const {
  const bool mixed = is_mixed(dtype_policy_);
  const bool in_autocast = CallContext::current() && CallContext::current()->autocast();
  const bool leaves_autocast = in_autocast && !mixed && dtype_policy_ != DTypePolicy::of_weights;
  const auto dtype = compute_dtype(dtype_policy_);
  std::optional<AutocastGuard> autocast;
  if (mixed || leaves_autocast)
    autocast.emplace(inputs.empty() ? at::kCPU : inputs[0].device().type(), mixed ? dtype : std::nullopt);
  const CallContext context(inputs, options, {.autocast = mixed || (in_autocast && !leaves_autocast)});
  std::vector<Tensor> outputs = with_layers_name(*this, inputs, [&] { return call_all(inputs, options); });
  autocast.reset();
  if (dtype) cast_floating(outputs, *dtype);
  return outputs;
}

std::vector<Tensor> LayerImpl::outputs(const std::vector<Tensor>& inputs, const CallOptions& options) const {
  std::vector<MaskedTensor> masked;
  masked.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) masked.push_back({inputs[i], options.mask(i)});
  std::vector<Tensor> all;
  for (MaskedTensor& output : forward(masked, options)) all.push_back(std::move(output.tensor));
  return all;
}

void LayerImpl::build_once(const std::vector<Shape>& input_shapes) {
  if (built()) return;
  const auto build_now = [&] {
    const std::lock_guard lock(building_);
    if (built()) return;
    build_all(input_shapes);
    built_.store(true, std::memory_order_release);
  };
  if (in_replica_function() && !has_source())
    get_strategy().build(build_now);
  else
    build_now();
}

bool LayerImpl::has_source() const { return source_ && source_ == WeightSource::current(); }

std::vector<Weight> LayerImpl::trained_weights() const {
  std::vector<Weight> trained;
  if (trainable_)
    std::ranges::copy_if(weights_, std::back_inserter(trained),
                         [](const Weight& weight) { return weight.trainable && weight.layer->trainable_; });
  return trained;
}

std::vector<Tensor> LayerImpl::trainable_variables() const {
  std::vector<Tensor> variables;
  for (const Weight& weight : weights_)
    if (trainable_ && weight.trainable && weight.layer->trainable_) variables.push_back(weight.value);
  return variables;
}

void LayerImpl::set_trainable(bool trainable) {
  trainable_ = trainable;
  for (const auto& layer : sublayers_) layer->set_trainable(trainable);
}

std::vector<Tensor> LayerImpl::losses() const {
  std::vector<Tensor> penalties;
  for (const Weight& weight : trained_weights())
    if (weight.regularizer) penalties.push_back((*weight.regularizer)(weight.value));
  return penalties;
}

void LayerImpl::set_dtype_policy(DTypePolicy policy) {
  const at::ScalarType dtype = variable_dtype(policy);
  for (const Weight& weight : weights_)
    if (weight.layer == this && weight.value.is_floating_point() && weight.value.scalar_type() != dtype)
      throw Error(ErrorCode::failed_precondition,
                  str(name_, ".set_dtype_policy: ", weight.name, " is made already, as ",
                      c10::toString(weight.value.scalar_type()), "; set the policy before the layer is built"));
  dtype_policy_ = policy;
  for (const auto& layer : sublayers_) layer->set_dtype_policy(policy);
}

std::vector<std::shared_ptr<const Node>> LayerImpl::calls_in_graphs() const {
  std::vector<std::shared_ptr<const Node>> calls;
  for (const auto& node : nodes_)
    if (auto call = node.lock()) calls.push_back(std::move(call));
  return calls;
}

void LayerImpl::rename(std::string name) {
  check_name(name);
  name_ = std::move(name);
  has_default_name_ = false;
}

void LayerImpl::keep_apart(const std::vector<std::shared_ptr<LayerImpl>>& layers) {
  roster_ = std::make_shared<const Roster>(layers.begin(), layers.end());
  for (const auto& layer : layers) {
    std::erase_if(layer->rosters_, [](const auto& roster) { return roster.expired(); });
    layer->rosters_.push_back(roster_);
  }
}

bool LayerImpl::is_beside(const std::string& name) const {
  const auto is_another_one = [&](const std::weak_ptr<const LayerImpl>& other) {
    const auto layer = other.lock();
    return layer && layer.get() != this && layer->name() == name;
  };
  return std::ranges::any_of(rosters_, [&](const std::weak_ptr<const Roster>& models) {
    const auto roster = models.lock();
    return roster && std::ranges::any_of(*roster, is_another_one);
  });
}

Tensor LayerImpl::add_weight(const std::string& name, const Shape& shape, const WeightOptions& options) {
  Tensor value;
  const at::ScalarType dtype = variable_dtype(dtype_policy_);
  const auto make = [&] {
    return WeightsToCome::in_force() ? at::empty(shape, dtype) : options.initializer(shape, dtype);
  };
  if (has_source()) {
    const std::string path = str(name_, '/', name);
    const auto make_noted = [&] {
      const Tensor made = make();
      set_path(made, path);
      if (options.constraint) constrain(made, *options.constraint);
      return made;
    };
    value = source_->weight(path, shape, options.trainable && trainable_, make_noted);
    weights_.push_back({name, value, options.trainable, options.regularizer, options.constraint, this});
    return value;
  }
  value = make();
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
  if (!weight.layer) weight.layer = this;
  if (!has_source()) {  // whose weights have it from where they were made: replicas come here at once
    set_path(weight.value, weight.name);
    if (weight.constraint) constrain(weight.value, *weight.constraint);
  }
  weights_.push_back(std::move(weight));
}

void LayerImpl::adopt(const std::shared_ptr<LayerImpl>& layer) {
  if (std::ranges::find(sublayers_, layer) != sublayers_.end()) return;
  sublayers_.push_back(layer);
  if (!trainable_) layer->set_trainable(false);
}

void LayerImpl::track_layer(const std::shared_ptr<LayerImpl>& layer) {
  adopt(layer);
  const auto children = module_->named_children();
  if (const auto* const child = children.find(layer->name()); !child)
    module_->register_module(layer->name(), layer->module());
  else if (*child != layer->module())
    refuse(str("two layers in it are called \"", layer->name(), "\"; names must be unique"));
  for (Weight weight : layer->weights()) {
    const auto is_listed = [&](const Weight& listed) { return listed.value.is_same(weight.value); };
    if (std::ranges::any_of(weights_, is_listed)) continue;
    weight.name = str(layer->name(), '/', weight.name);
    track(std::move(weight));
  }
}

void LayerImpl::regularize_activity(std::optional<regularizers::Regularizer> regularizer) {
  activity_regularizer_ = std::move(regularizer);
}

void LayerImpl::add_activity_losses(const std::vector<Tensor>& outputs, const CallOptions& options) const {
  if (!activity_regularizer_) return;
  for (const Tensor& output : outputs) {
    const auto num_samples = static_cast<double>(output.dim() > 0 ? output.size(0) : 1);
    add_loss(options, ReduceOp::mean, (*activity_regularizer_)(output) / std::max(1.0, num_samples));
  }
}

void LayerImpl::add_loss(const CallOptions& options, ReduceOp reduction, const Tensor& loss) {
  if (options.added_losses) options.added_losses->emplace_back(reduction, loss);
}

void LayerImpl::visit_state(StateVisitor& visitor) {
  if (!built())
    throw Error(ErrorCode::failed_precondition,
                str(name_, ": has no weights yet to save or restore; call build, or use it once, before"));
  for (const Weight& weight : weights_) visitor.tensor(weight.name, weight.value);
}

void LayerImpl::refuse(const std::string& message) const {
  throw Error(ErrorCode::invalid_argument, str(name_, ": ", message));
}

}  // namespace tutti::keras::layers
