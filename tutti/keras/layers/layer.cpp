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
  if (!built()) build(x.sizes().vec());
  return impl_->call(x, options);
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
