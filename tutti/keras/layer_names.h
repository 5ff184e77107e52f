#pragma once

#include <string>
#include <vector>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras {

// "MaxPooling2D" -> "max_pooling2d", "ReLU" -> "re_lu": Keras's rule for the names of layers.
std::string snake_case(const std::string& type);

// Gives each layer a name that no other before it has: "dense", "dense_1". Throws: the error of `model` for a given
// name that occurs twice.
void name_uniquely(const std::vector<layers::Layer>& layers, const layers::LayerImpl& model);

// "\"a\", \"b\"", or "without names" of none.
std::string quoted(const std::vector<std::string>& names);

}  // namespace tutti::keras
