#pragma once

#include <functional>
#include <memory>

#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// A layer around a torch::nn::Module and its forward. Parameters that require gradients are its trainable weights.
std::shared_ptr<LayerImpl> make_module_layer(std::shared_ptr<torch::nn::Module> module,
                                             std::function<Tensor(const Tensor&)> forward);

}  // namespace tutti::keras::layers
