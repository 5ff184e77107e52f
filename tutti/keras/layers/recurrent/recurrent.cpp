#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/call_context_internal.h"
#include "tutti/keras/layers/recurrent/recurrent_internal.h"
#include "tutti/keras/layers/recurrent/steps_internal.h"

namespace tutti::keras::layers {

Tensor kernel_for_libtorch(const Tensor& kernel) { return kernel.is_cpu() ? kernel.t() : kernel.t().contiguous(); }

Tensor dropout_mask(at::IntArrayRef shape, const at::TensorOptions& options, double rate) {
  return at::dropout(at::ones(shape, options.requires_grad(false)), rate, /*train=*/true);
}

void check_dropout_rate(const LayerImpl& layer, double rate) {
  if (!(rate >= 0 && rate < 1)) layer.refuse(str("a dropout rate is ", rate, "; it must be in [0, 1)"));
}

RecurrentImpl::RecurrentImpl(std::string type, const RecurrentOptions& options, CellForm form)
    : LayerImpl(std::move(type), options.name), options_(options), form_(std::move(form)) {
  if (options_.units <= 0) refuse(tutti::str("units is ", options_.units, "; it must be positive"));
  for (const double rate : {options_.dropout, options_.recurrent_dropout}) check_dropout_rate(*this, rate);
  regularize_activity(options_.activity_regularizer);
}

void RecurrentImpl::build_all(const std::vector<Shape>& input_shapes) {
  (void)compute_output_shapes(input_shapes);
  const int64_t features = input_shapes[0].back(), width = form_.num_gates * options_.units;
  if (features == kUnknown) refuse("the input's last extent must be known when the layer is built");
  kernel_ = add_weight("kernel", {features, width},
                       {.initializer = options_.kernel_initializer, .regularizer = options_.kernel_regularizer});
  recurrent_kernel_ =
      add_weight("recurrent_kernel", {options_.units, width},
                 {.initializer = options_.recurrent_initializer, .regularizer = options_.recurrent_regularizer});
  if (options_.use_bias)
    bias_ = add_weight("bias", form_.bias_shape,
                       {.initializer = options_.bias_initializer, .regularizer = options_.bias_regularizer});
}

std::vector<Shape> RecurrentImpl::compute_output_shapes(const std::vector<Shape>& input_shapes) const {
  if (input_shapes.size() != 1 && input_shapes.size() != 1 + form_.num_states)
    refuse(tutti::str("takes a sequence, or one and ", form_.num_states, " first states, not ", input_shapes.size(),
                      " inputs"));
  const Shape& sequence = input_shapes[0];
  if (sequence.size() != 3)
    refuse(tutti::str("the input has shape ", to_string(sequence), "; it must be [batch, steps, features]"));
  if (kernel_.defined() && sequence[2] != kUnknown && sequence[2] != kernel_.size(0))
    refuse(tutti::str("the input has shape ", to_string(sequence), "; the layer was built for ", kernel_.size(0),
                      " features"));
  const Shape state{sequence[0], options_.units};
  for (size_t i = 1; i < input_shapes.size(); ++i)
    if (input_shapes[i].size() != 2 || input_shapes[i][1] != options_.units)
      refuse(tutti::str("a first state has shape ", to_string(input_shapes[i]), "; it must be ", to_string(state)));
  std::vector<Shape> shapes{state};
  if (options_.return_sequences) shapes[0].insert(shapes[0].begin() + 1, sequence[1]);
  if (options_.return_state) shapes.insert(shapes.end(), form_.num_states, state);
  return shapes;
}

std::vector<Tensor> RecurrentImpl::compute_masks(const std::vector<Tensor>&, const std::vector<Tensor>& masks) const {
  if (masks.empty() || !options_.return_sequences) return {};
  return {masks[0]};
}

RecurrentImpl::States RecurrentImpl::first_states(const std::vector<Tensor>& inputs) const {
  if (inputs.size() > 1) return {inputs.begin() + 1, inputs.end()};
  const Tensor& x = inputs[0];
  if (options_.stateful && !CallContext::is_trial() && !last_states_->empty()) {
    const States& last = *last_states_;
    if (last[0].size(0) != x.size(0))
      refuse(tutti::str("stateful: the batch has ", x.size(0), " samples, the one before had ", last[0].size(0),
                        "; keep the number of samples, or call reset_state() between them"));
    States first;
    for (const Tensor& state : last) first.push_back(state.to(x.options().requires_grad(false)));
    return first;
  }
  return States(form_.num_states, at::zeros({x.size(0), options_.units}, x.options().requires_grad(false)));
}

void RecurrentImpl::keep_states(const States& states) const {
  if (!options_.stateful || CallContext::is_trial()) return;
  States kept;
  for (const Tensor& state : states) kept.push_back(state.detach());
  *last_states_ = std::move(kept);
}

void RecurrentImpl::reset_state() const {
  for (States& states : last_states_.values()) states.clear();
}

std::vector<Tensor> RecurrentImpl::call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const {
  (void)compute_output_shapes(shapes_of(inputs));
  auto [x, mask] = steps_of(*this, inputs[0], options.mask(), options_.go_backwards);
  if (options.training && options_.dropout > 0)
    x = x * dropout_mask({x.size(0), 1, x.size(2)}, x.options(), options_.dropout);

  const States first = first_states(inputs);
  const bool drops_states = options.training && options_.recurrent_dropout > 0;
  std::optional<Run> run;
  if (!drops_states) run = mask.defined() ? run_compacted(x, mask, first) : run_fused(x, first);
  if (!run) run = run_stepwise(x, mask, first, options.training);

  keep_states(run->states);
  if (mask.defined() && options_.zero_output_for_mask) run->sequence = at::where(mask.unsqueeze(-1), run->sequence, 0);
  std::vector<Tensor> outputs{options_.return_sequences ? run->sequence : run->sequence.select(1, -1)};
  if (options_.return_state) outputs.insert(outputs.end(), run->states.begin(), run->states.end());
  return outputs;
}

std::optional<RecurrentImpl::Run> RecurrentImpl::run_compacted(const Tensor& x, const Tensor& mask,
                                                               const States& states) const {
  const bool asks_for_states = options_.return_state || options_.stateful;
  if (asks_for_states && form_.num_states > 1) return {};  // the kernel shows the first state of each step alone
  const Tensor order = std::get<1>(at::sort(mask.to(at::kByte), /*stable=*/true, /*dim=*/1, /*descending=*/true));
  const std::optional<Run> run = run_fused(x.gather(1, order.unsqueeze(-1).expand_as(x)), states);
  if (!run) return {};
  const Tensor num_seen = mask.cumsum(1).unsqueeze(-1);  // [batch, steps, 1]
  const Tensor last = (num_seen - 1).clamp_min(0).expand_as(run->sequence);
  const Tensor sequence = at::where(num_seen > 0, run->sequence.gather(1, last), 0);
  return Run{sequence, {at::where(num_seen.select(1, -1) > 0, sequence.select(1, -1), states[0])}};
}

RecurrentImpl::Run RecurrentImpl::run_stepwise(const Tensor& x, const Tensor& mask, States states,
                                               bool training) const {
  Tensor gates = at::matmul(x, kernel_);
  if (options_.use_bias) gates = gates + input_bias();
  Tensor kept;
  if (training && options_.recurrent_dropout > 0)
    kept = dropout_mask(states[0].sizes(), states[0].options(), options_.recurrent_dropout);

  const std::vector<Tensor> gates_of_step = gates.unbind(1);
  std::vector<Tensor> outputs;
  Tensor output = at::zeros_like(states[0]);
  for (size_t t = 0; t < gates_of_step.size(); ++t) {
    States before = states;
    if (kept.defined()) before[0] = before[0] * kept;
    States after = step(gates_of_step[t], before);
    if (mask.defined()) {
      const Tensor counts = mask.select(1, static_cast<int64_t>(t)).unsqueeze(1);
      output = at::where(counts, after[0], output);
      for (size_t i = 0; i < states.size(); ++i) after[i] = at::where(counts, after[i], states[i]);
    } else {
      output = after[0];
    }
    states = std::move(after);
    outputs.push_back(output);
  }
  return {at::stack(outputs, 1), std::move(states)};
}

}  // namespace tutti::keras::layers
