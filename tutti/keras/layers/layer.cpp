#include "tutti/keras/layers/layer.h"

#include <c10/core/GradMode.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/module_layer_internal.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::keras::layers {

Layer::Layer(std::shared_ptr<LayerImpl> impl) : impl_(std::move(impl)) {}

Layer::Layer(std::shared_ptr<torch::nn::Module> module, std::function<Tensor(const Tensor&)> forward)
    : Layer(make_module_layer(std::move(module), std::move(forward))) {}

Tensor Layer::operator()(const Tensor& x, const CallOptions& options) const {
  return (*this)(std::vector<Tensor>{x}, options);
}

Tensor Layer::operator()(const std::vector<Tensor>& inputs, const CallOptions& options) const {
  std::vector<Tensor> all = outputs(inputs, options);
  if (all.size() != 1) impl_->refuse(str("has ", all.size(), " outputs; ask for them by outputs({…})"));
  return std::move(all[0]);
}

std::vector<Tensor> Layer::outputs(const std::vector<Tensor>& inputs, const CallOptions& options) const {
  if (!built()) impl_->build_once(shapes_of(inputs));
  return impl_->outputs(inputs, options);
}

SymbolicTensor Layer::operator()(const SymbolicTensor& x) const { return (*this)(std::vector<SymbolicTensor>{x}); }

SymbolicTensor Layer::operator()(const std::vector<SymbolicTensor>& inputs) const {
  std::vector<SymbolicTensor> all = outputs(inputs);
  if (all.size() != 1) impl_->refuse(str("has ", all.size(), " outputs; ask for them by outputs({…})"));
  return std::move(all[0]);
}

std::vector<SymbolicTensor> Layer::outputs(const std::vector<SymbolicTensor>& inputs) const {
  std::vector<Shape> shapes;
  std::string origins;
  for (const SymbolicTensor& input : inputs) {
    shapes.push_back(input.shape());
    origins += str(origins.empty() ? "" : ", ", input.node().layer->name(), ' ', to_string(input.shape()));
  }
  try {
    impl_->build_once(shapes);
    auto node = std::make_shared<Node>(
        Node{.layer = impl_, .inputs = inputs, .output_shapes = impl_->compute_output_shapes(shapes)});
    std::vector<SymbolicTensor> all;
    for (size_t i = 0; i < node->output_shapes.size(); ++i) all.emplace_back(node, i);
    return all;
  } catch (const Error& error) {
    throw Error(error.code(), str(error.what(), " (called on the output of ", origins, ')'), error.location());
  }
}

Tensor Layer::compute_mask(const Tensor& x, const Tensor& mask) const {
  const std::vector<Tensor> masks = impl_->compute_masks({x}, {mask});
  return masks.empty() ? Tensor() : masks[0];
}

std::vector<Tensor> Layer::get_weights() const {
  const c10::NoGradGuard no_grad;
  std::vector<Tensor> values;
  for (const Weight& weight : weights())
    values.push_back((is_mesh_tensor(weight.value) ? gather(weight.value) : weight.value).detach().clone());
  return values;
}

void Layer::set_weights(const std::vector<Tensor>& values) const {
  if (values.size() != weights().size())
    throw Error(ErrorCode::invalid_argument,
                str("set_weights: ", name(), " has ", weights().size(), " weights", built() ? "" : " (it is not built)",
                    ", but ", values.size(), " values were given"));
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].sizes() != weights()[i].value.sizes())
      throw Error(ErrorCode::invalid_argument,
                  str("set_weights: ", name(), '/', weights()[i].name, " has shape ",
                      to_string(weights()[i].value.sizes()), ", its value ", to_string(values[i].sizes())));
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < values.size(); ++i) Tensor(weights()[i].value).copy_(values[i]);
}

}  // namespace tutti::keras::layers
