#pragma once

#include <memory>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// A layer of this type that is the activation; x keeps its shape.
std::shared_ptr<LayerImpl> make_activation_layer(std::string type, std::string name,
                                                 const activations::Activation& activation);

}  // namespace tutti::keras::layers
