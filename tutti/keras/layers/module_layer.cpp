#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

#include "tutti/keras/layers/module_layer_internal.h"
#include "tutti/keras/layers/torch_errors_internal.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti::keras::layers {
namespace {

class ModuleLayer : public LayerImpl {
 public:
  ModuleLayer(std::shared_ptr<torch::nn::Module> module, std::function<Tensor(const Tensor&)> forward)
      : LayerImpl(short_name(*module), "", module), forward_(std::move(forward)) {
    for (const auto& parameter : module->named_parameters())
      track({.name = parameter.key(), .value = parameter.value(), .trainable = parameter.value().requires_grad()});
    for (const auto& buffer : module->named_buffers())
      track({.name = buffer.key(), .value = buffer.value(), .trainable = false});
  }

  // All replicas ask for one mode, so the one that writes it writes what the others read. A replay of the call leaves
  // the module in that mode too.
  Tensor call(const Tensor& x, const CallOptions& options) const override {
    const auto set_mode = [module = module(), training = options.training](at::ArrayRef<Tensor>) {
      if (module->is_training() != training) module->train(training);
    };
    CallRecorder::current() ? host_step("train", {}, {}, set_mode) : set_mode({});
    return forward_(x);
  }

  // Found by calling the module in evaluation mode on one sample of zeros.
  Shape compute_output_shape(const Shape& input_shape) const override {
    Shape sample = input_shape;
    std::ranges::replace(sample, kUnknown, int64_t{1});
    const c10::NoGradGuard no_grad;
    const bool was_training = module()->is_training();
    const Tensor zeros = at::zeros(sample);
    Shape output = with_layers_name(*this, {zeros}, [&] { return call(zeros, {}); }).sizes().vec();
    module()->train(was_training);
    if (!output.empty()) output[0] = input_shape[0];
    return output;
  }

 private:
  // "torch::nn::LinearImpl" -> "Linear"
  static std::string short_name(const torch::nn::Module& module) {
    std::string name = module.name();
    name.erase(0, name.find_last_of(':') + 1);
    if (name.ends_with("Impl")) name.resize(name.size() - 4);
    return name;
  }

  std::function<Tensor(const Tensor&)> forward_;
};

}  // namespace

std::shared_ptr<LayerImpl> make_module_layer(std::shared_ptr<torch::nn::Module> module,
                                             std::function<Tensor(const Tensor&)> forward) {
  return std::make_shared<ModuleLayer>(std::move(module), std::move(forward));
}

}  // namespace tutti::keras::layers
