#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <limits>
#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti::keras::activations {

// An elementwise (softmax and its like: last-axis) function with the name that Keras gives it: one of those below, also
// by its name, {.activation = "relu"}. A captureless lambda makes a new one:
//   constexpr Activation cube{"cube", [](const Tensor& x) { return x.pow(3); }};
struct Activation {
  using Parameters = std::array<double, 3>;
  using Function = Tensor (*)(const Tensor&);
  using Parametrized = Tensor (*)(const Tensor&, const Parameters&);

  const char* name = "linear";
  Function function = nullptr;  // nullptr, and no parametrized one: x itself
  Parametrized parametrized = nullptr;
  Parameters parameters = {};

  constexpr Activation() = default;
  // Throws: invalid_argument for a name that is none of those below.
  Activation(const char* name);
  Activation(const std::string& name) : Activation(name.c_str()) {}
  constexpr Activation(const char* name, Function function) : name(name), function(function) {}
  constexpr Activation(const char* name, Parametrized parametrized, const Parameters& parameters)
      : name(name), parametrized(parametrized), parameters(parameters) {}

  Tensor operator()(const Tensor& x) const {
    if (parametrized) return parametrized(x, parameters);
    return function ? function(x) : x;
  }
};

// With Keras's defaults.
extern const Activation celu;  // alpha 1
extern const Activation elu;   // alpha 1
extern const Activation exponential;
extern const Activation gelu;          // exact: x * Phi(x)
extern const Activation glu;           // a * sigmoid(b) for the halves a, b of the last axis
extern const Activation hard_shrink;   // x where |x| > 0.5, else 0
extern const Activation hard_sigmoid;  // relu6(x + 3) / 6
extern const Activation hard_silu;     // x * hard_sigmoid(x)
extern const Activation hard_tanh;     // x within [-1, 1]
extern const Activation leaky_relu;    // slope 0.2, as in Keras 3
extern const Activation linear;
extern const Activation log_sigmoid;
extern const Activation log_softmax;  // over the last axis
extern const Activation mish;         // x * tanh(softplus(x))
extern const Activation relu;
extern const Activation relu6;
extern const Activation selu;
extern const Activation sigmoid;
extern const Activation silu;         // x * sigmoid(x)
extern const Activation soft_shrink;  // x moved by 0.5 towards 0
extern const Activation softmax;      // over the last axis
extern const Activation softplus;
extern const Activation softsign;        // x / (1 + |x|)
extern const Activation sparse_plus;     // 0 up to -1, (x + 1)^2 / 4 up to 1, then x
extern const Activation sparse_sigmoid;  // (x + 1) / 2 within [0, 1]
extern const Activation sparsemax;       // over the last axis
extern const Activation squareplus;      // (x + sqrt(x^2 + 4)) / 2
extern const Activation tanh;
extern const Activation tanh_shrink;  // x - tanh(x)

inline constexpr const Activation& hard_swish = hard_silu;
inline constexpr const Activation& swish = silu;

// The same with other parameters; each only makes an Activation.

struct CELU : Activation {
  explicit CELU(double alpha = 1);  // max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
};
struct ELU : Activation {
  explicit ELU(double alpha = 1);  // x where x > 0, else alpha * (exp(x) - 1)
};
struct GELUOptions {
  bool approximate = false;  // by tanh
};
struct GELU : Activation {
  explicit GELU(const GELUOptions& options = {});
};
struct GLU : Activation {
  explicit GLU(int64_t axis = -1);
};
struct HardShrink : Activation {
  explicit HardShrink(double threshold = 0.5);
};
struct LeakyReLU : Activation {
  explicit LeakyReLU(double negative_slope = 0.2);
};
struct LogSoftmax : Activation {
  explicit LogSoftmax(int64_t axis = -1);
};
struct ReLUOptions {
  double negative_slope = 0;
  double max_value = std::numeric_limits<double>::infinity();
  double threshold = 0;
};
// max_value where x >= max_value, x above threshold, else negative_slope * (x - threshold)
struct ReLU : Activation {
  explicit ReLU(const ReLUOptions& options = {});
};
struct Softmax : Activation {
  explicit Softmax(int64_t axis = -1);
};
struct SoftShrink : Activation {
  explicit SoftShrink(double threshold = 0.5);
};
struct Sparsemax : Activation {
  explicit Sparsemax(int64_t axis = -1);
};
struct SquarePlus : Activation {
  explicit SquarePlus(double b = 4);
};
struct ThresholdOptions {
  double threshold = 0;
  double default_value = 0;
};
// x above threshold, else default_value
struct Threshold : Activation {
  explicit Threshold(const ThresholdOptions& options);
};

}  // namespace tutti::keras::activations
