#pragma once

#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// The input of a layer that goes from step to step, in the order in which it goes.
struct Steps {
  Tensor x;     // [batch, steps, …]
  Tensor mask;  // [batch, steps], or undefined
};

// Of a call's first input and its mask; `backwards`: the last step first. The layer refuses an input without steps and
// a mask of another shape.
Steps steps_of(const LayerImpl& layer, const Tensor& x, const Tensor& mask, bool backwards);

}  // namespace tutti::keras::layers
