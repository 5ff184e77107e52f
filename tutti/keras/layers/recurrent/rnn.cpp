#include "tutti/keras/layers/recurrent/rnn.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/call_context_internal.h"
#include "tutti/keras/layers/recurrent/rnn_internal.h"
#include "tutti/keras/layers/recurrent/steps_internal.h"

namespace tutti::keras::layers {
namespace {

// `a` where the step counts, else `b`; mask [batch].
Tensor where_counts(const Tensor& mask, const Tensor& a, const Tensor& b) {
  std::vector<int64_t> shape(static_cast<size_t>(a.dim()), 1);
  shape[0] = mask.size(0);
  return at::where(mask.view(shape), a, b);
}

}  // namespace

RNNImpl::RNNImpl(std::string type, const RNNCell& cell, const RNNOptions& options,
                 const std::shared_ptr<torch::nn::Module>& module)
    : LayerImpl(std::move(type), options.name, module), options_(options), cell_(cell) {
  adopt(cell_.impl());
}

void RNNImpl::build_all(const std::vector<Shape>& input_shapes) {
  (void)compute_output_shapes(input_shapes);
  cell_.build(shape_of_step(input_shapes[0]));
  if (module() != cell_.module()) return track_layer(cell_.impl());
  for (const Weight& weight : cell_.weights()) track(weight);
}

std::vector<Tensor> RNNImpl::call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const {
  (void)compute_output_shapes(shapes_of(inputs));
  const auto [x, mask] = steps_of(*this, inputs[0], options.mask(), options_.go_backwards);
  std::vector<Tensor> states = first_states(inputs);
  std::vector<Tensor> outputs =
      run(x, mask, states, {.training = options.training, .added_losses = options.added_losses});
  if (options_.stateful && !CallContext::is_trial()) {
    last_states_->clear();
    for (const Tensor& state : states) last_states_->push_back(state.detach());
  }
  std::vector<Tensor> result{options_.return_sequences ? at::stack(outputs, 1) : outputs.back()};
  if (options_.return_state) result.insert(result.end(), states.begin(), states.end());
  return result;
}

std::vector<Shape> RNNImpl::compute_output_shapes(const std::vector<Shape>& input_shapes) const {
  const Shape& x = input_shapes.at(0);
  const std::vector<Shape> states = cell_.cell().state_shapes(shape_of_step(x));
  if (input_shapes.size() != 1 && input_shapes.size() != 1 + states.size())
    refuse(tutti::str("takes a sequence, or one and ", states.size(), " first states, not ", input_shapes.size(),
                      " inputs"));
  for (size_t i = 1; i < input_shapes.size(); ++i)
    if (Shape expected = states[i - 1]; input_shapes[i] != expected)
      refuse(tutti::str("a first state has shape ", to_string(input_shapes[i]), "; it must be ", to_string(expected)));
  std::vector<Shape> shapes{cell_.cell().output_shape(shape_of_step(x))};
  if (options_.return_sequences) shapes[0].insert(shapes[0].begin() + 1, x[1]);
  if (options_.return_state) shapes.insert(shapes.end(), states.begin(), states.end());
  return shapes;
}

std::vector<Tensor> RNNImpl::compute_masks(const std::vector<Tensor>&, const std::vector<Tensor>& masks) const {
  if (masks.empty() || !options_.return_sequences) return {};
  return {masks[0]};
}

void RNNImpl::reset_state() const {
  for (std::vector<Tensor>& states : last_states_.values()) states.clear();
}

Shape RNNImpl::shape_of_step(Shape shape) const {
  if (shape.size() < 3)
    refuse(tutti::str("the input has shape ", to_string(shape), "; it must be [batch, steps, ...]"));
  shape.erase(shape.begin() + 1);
  return shape;
}

std::vector<Tensor> RNNImpl::first_states(const std::vector<Tensor>& inputs) const {
  if (inputs.size() > 1) return {inputs.begin() + 1, inputs.end()};
  const Tensor& x = inputs[0];
  if (options_.stateful && !CallContext::is_trial() && !last_states_->empty()) {
    if ((*last_states_)[0].size(0) != x.size(0))
      refuse(tutti::str("stateful: the batch has ", x.size(0), " samples, the one before had ",
                        (*last_states_)[0].size(0),
                        "; keep the number of samples, or call reset_state() between them"));
    return *last_states_;
  }
  std::vector<Tensor> states;
  for (const Shape& shape : cell_.cell().state_shapes(shape_of_step(x.sizes().vec())))
    states.push_back(at::zeros(shape, x.options().requires_grad(false)));
  return states;
}

std::vector<Tensor> RNNImpl::run(const Tensor& x, const Tensor& mask, std::vector<Tensor>& states,
                                 const CallOptions& options) const {
  std::vector<Tensor> outputs;
  const std::vector<Tensor> steps = x.unbind(1);
  std::vector<Tensor> drawn;
  if (options.training) drawn = cell_.cell().draw(steps[0].sizes().vec(), x.options().requires_grad(false));
  for (size_t t = 0; t < steps.size(); ++t) {
    std::vector<Tensor> arguments{steps[t]};
    arguments.insert(arguments.end(), states.begin(), states.end());
    arguments.insert(arguments.end(), drawn.begin(), drawn.end());
    std::vector<Tensor> after = cell_.impl()->outputs(arguments, options);
    if (after.size() != 1 + states.size())
      refuse(tutti::str("the cell ", cell_.name(), " gave ", after.size(), " tensors; its output and ", states.size(),
                        " states are expected"));
    if (mask.defined()) {
      const Tensor counts = mask.select(1, static_cast<int64_t>(t));
      const bool repeats = !options_.zero_output_for_mask && t > 0;
      after[0] = where_counts(counts, after[0], repeats ? outputs.back() : at::zeros_like(after[0]));
      for (size_t i = 1; i < after.size(); ++i) after[i] = where_counts(counts, after[i], states[i - 1]);
    }
    outputs.push_back(after[0]);
    states.assign(after.begin() + 1, after.end());
  }
  return outputs;
}

RNN::RNN(const RNNCell& cell, const RNNOptions& options)
    : Layer(std::make_shared<RNNImpl>("RNN", cell, options), options) {}

void RNN::reset_state() const { static_cast<RNNImpl&>(*impl()).reset_state(); }

}  // namespace tutti::keras::layers
