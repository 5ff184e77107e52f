#pragma once

#include <string>
#include <vector>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras {

// "MaxPooling2D" -> "max_pooling2d", "ReLU" -> "re_lu": Keras's rule for the names of layers.
std::string snake_case(const std::string& type);

// Gives each layer of a model a name that no other has: "dense", "dense_1". Given names stay; so do those that a model
// gave before, unless two models have given one name: then the later layer is called what is free in all of its models.
// Throws: the error of `model` for a given name that occurs twice.
void name_uniquely(const std::vector<layers::Layer>& layers, layers::LayerImpl& model);

// "\"a\", \"b\"", or "without names" of none.
std::string quoted(const std::vector<std::string>& names);

}  // namespace tutti::keras
