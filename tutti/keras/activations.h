#pragma once

#include <ATen/core/Tensor.h>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::activations {

// An elementwise (softmax: last-axis) function with the name that Keras gives it. A captureless lambda makes a new one:
//   constexpr Activation cube{"cube", [](const Tensor& x) { return x.pow(3); }};
struct Activation {
  const char* name = "linear";
  Tensor (*function)(const Tensor&) = nullptr;  // nullptr: x itself

  Tensor operator()(const Tensor& x) const { return function ? function(x) : x; }
};

extern const Activation elu;  // alpha 1
extern const Activation exponential;
extern const Activation gelu;          // exact: x * Phi(x)
extern const Activation hard_sigmoid;  // relu6(x + 3) / 6
extern const Activation leaky_relu;    // slope 0.2, as in Keras 3
extern const Activation linear;
extern const Activation log_softmax;  // over the last axis
extern const Activation relu;
extern const Activation relu6;
extern const Activation selu;
extern const Activation sigmoid;
extern const Activation silu;     // x * sigmoid(x); Keras also says "swish"
extern const Activation softmax;  // over the last axis
extern const Activation softplus;
extern const Activation softsign;  // x / (1 + |x|)
extern const Activation tanh;

}  // namespace tutti::keras::activations
