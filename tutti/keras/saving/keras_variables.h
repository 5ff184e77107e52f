#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/model_impl.h"

namespace tutti::keras {

// A weight of a model as Python's Keras keeps it.
struct KerasVariable {
  std::string path;      // in its files of weights, "layers/dense/vars/0"
  std::string name;      // our own, "dense/kernel"
  at::ScalarType dtype;  // in its files
  Tensor value;
};

struct KerasVariables {
  std::vector<KerasVariable> variables;
  std::vector<std::string> groups;  // of the variables of each layer, those without any too: "layers/dropout/vars"
  std::map<std::string, Tensor> constants;  // that are no weights here: "layers/integer_lookup/vars/idf_weights"
};

// Where Keras has the weights of a model, which is built. Layers are not found by their names, which differ from one
// run of a Python program to the next: in a sequential or functional model by their class and number, in a layer of
// Keras's by the attribute that holds them. In a class of one's own the name of a layer is taken for that of the
// attribute, and the order of the layers for that in which Python sets them: of `self.hidden = Dense(4)`, Dense({.units
// = 4, .name = "hidden"}) has the weights. Throws: failed_precondition before the model is built; invalid_argument for
// a weight of the model that belongs to none of its layers. Source: keras.src.saving.saving_lib, the same in 3.0
// to 3.15.
KerasVariables keras_variables(const ModelImpl& model);

// The layers of a model as Keras lists them, without those that stand for its inputs.
std::vector<std::shared_ptr<layers::LayerImpl>> layers_of_keras(const ModelImpl& model);

// The weights of a layer in the order of Keras's `weights`, in which those of a model's layers follow each other; those
// that are trained come first.
std::vector<layers::Weight> weights_in_order_of_keras(const layers::LayerImpl& layer);

// The model's trained variables in the order of Keras's `trainable_variables`.
std::vector<Tensor> trained_in_order_of_keras(const ModelImpl& model);

}  // namespace tutti::keras
