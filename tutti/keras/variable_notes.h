#pragma once

#include <string>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/constraints.h"

namespace tutti::keras {

// What a variable carries with it, so that an optimizer, which gets bare tensors, knows it.

// The constraint that holds again after each update. TF: tf.Variable's constraint
void constrain(const Tensor& variable, constraints::Constraint constraint);
// Null: none. Stays until it is given another one.
const constraints::Constraint* constraint_of(const Tensor& variable);

// The path by which the outermost layer or model that has it lists it: "encoder/dense/kernel".
void set_path(const Tensor& variable, std::string path);
// Empty: none.
std::string path_of(const Tensor& variable);

}  // namespace tutti::keras
