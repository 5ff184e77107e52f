#include "tutti/keras/activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace tutti::keras::activations {
namespace {

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double clip(double x, double low, double high) { return std::min(std::max(x, low), high); }
double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

struct Case {
  Activation activation;
  std::string name;
  std::function<double(double)> formula;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> table{
      {celu, "celu", [](double x) { return x > 0 ? x : std::expm1(x); }},
      {CELU(2), "celu", [](double x) { return x > 0 ? x : 2 * std::expm1(x / 2); }},
      {elu, "elu", [](double x) { return x > 0 ? x : std::expm1(x); }},
      {ELU(0.5), "elu", [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); }},
      {exponential, "exponential", [](double x) { return std::exp(x); }},
      {gelu, "gelu", [](double x) { return x * normal_cdf(x); }},
      {GELU({.approximate = true}), "gelu",
       [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
      {hard_shrink, "hard_shrink", [](double x) { return std::abs(x) > 0.5 ? x : 0; }},
      {HardShrink(1), "hard_shrink", [](double x) { return std::abs(x) > 1 ? x : 0; }},
      {hard_sigmoid, "hard_sigmoid", [](double x) { return clip(x / 6 + 0.5, 0, 1); }},
      {hard_silu, "hard_silu", [](double x) { return x * clip(x / 6 + 0.5, 0, 1); }},
      {hard_swish, "hard_silu", [](double x) { return x * clip(x / 6 + 0.5, 0, 1); }},
      {hard_tanh, "hard_tanh", [](double x) { return clip(x, -1, 1); }},
      {leaky_relu, "leaky_relu", [](double x) { return x > 0 ? x : 0.2 * x; }},
      {LeakyReLU(0.1), "leaky_relu", [](double x) { return x > 0 ? x : 0.1 * x; }},
      {linear, "linear", [](double x) { return x; }},
      {log_sigmoid, "log_sigmoid", [](double x) { return std::log(sigmoid_of(x)); }},
      {mish, "mish", [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {relu, "relu", [](double x) { return std::max(x, 0.0); }},
      {ReLU({.negative_slope = 0.1, .max_value = 2, .threshold = 1}), "relu",
       [](double x) { return x > 1 ? std::min(x, 2.0) : 0.1 * (x - 1); }},
      {ReLU({.threshold = 1}), "relu", [](double x) { return x > 1 ? x : 0; }},
      {relu6, "relu6", [](double x) { return clip(x, 0, 6); }},
      {selu, "selu", [](double x) { return 1.05070098 * (x > 0 ? x : 1.67326324 * std::expm1(x)); }},
      {sigmoid, "sigmoid", sigmoid_of},
      {silu, "silu", [](double x) { return x * sigmoid_of(x); }},
      {swish, "silu", [](double x) { return x * sigmoid_of(x); }},
      {soft_shrink, "soft_shrink", [](double x) { return x > 0.5    ? x - 0.5
                                                         : x < -0.5 ? x + 0.5
                                                                    : 0; }},
      {SoftShrink(1), "soft_shrink", [](double x) { return x > 1    ? x - 1
                                                           : x < -1 ? x + 1
                                                                    : 0; }},
      {softplus, "softplus", [](double x) { return std::log1p(std::exp(x)); }},
      {softsign, "softsign", [](double x) { return x / (1 + std::abs(x)); }},
      {sparse_plus, "sparse_plus", [](double x) { return x <= -1 ? 0
                                                         : x < 1 ? (x + 1) * (x + 1) / 4
                                                                 : x; }},
      {sparse_sigmoid, "sparse_sigmoid", [](double x) { return clip((x + 1) / 2, 0, 1); }},
      {squareplus, "squareplus", [](double x) { return (x + std::sqrt(x * x + 4)) / 2; }},
      {SquarePlus(1), "squareplus", [](double x) { return (x + std::sqrt(x * x + 1)) / 2; }},
      {tanh, "tanh", [](double x) { return std::tanh(x); }},
      {tanh_shrink, "tanh_shrink", [](double x) { return x - std::tanh(x); }},
      {Threshold({.threshold = 1, .default_value = -2}), "threshold", [](double x) { return x > 1 ? x : -2; }},
  };
  return table;
}

TEST(Activations, AreKerassFormulas) {
  const Tensor x = at::linspace(-8, 8, 129, at::kDouble);  // with -1, -0.5, 0, 0.5, 1 among them
  for (const Case& test : cases()) {
    EXPECT_EQ(test.activation.name, test.name);
    const Tensor y = test.activation(x);
    for (int64_t i = 0; i < x.size(0); ++i) {
      const double at_x = x[i].item<double>();
      EXPECT_NEAR(y[i].item<double>(), test.formula(at_x), 1e-6 * (1 + std::abs(at_x))) << test.name << " of " << at_x;
    }
  }
}

TEST(Activations, GoOverTheirAxis) {
  const Tensor x = at::randn({2, 4, 6});
  EXPECT_TRUE(at::allclose(softmax(x), x.exp() / x.exp().sum(-1, true)));
  EXPECT_TRUE(at::allclose(Softmax(1)(x), x.exp() / x.exp().sum(1, true)));
  EXPECT_TRUE(at::allclose(log_softmax(x), softmax(x).log(), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(LogSoftmax(1)(x), Softmax(1)(x).log(), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(glu(x), x.slice(2, 0, 3) * x.slice(2, 3, 6).sigmoid()));
  EXPECT_TRUE(at::allclose(GLU(1)(x), x.slice(1, 0, 2) * x.slice(1, 2, 4).sigmoid()));
}

// The nearest point of the simplex: what is positive sums to 1 and lies below the input by one constant.
TEST(Activations, SparsemaxIsAProjectionOntoTheSimplex) {
  EXPECT_TRUE(at::allclose(sparsemax(at::tensor({0.5, 0.4, -1.0})), at::tensor({0.55, 0.45, 0.0})));
  EXPECT_TRUE(at::allclose(sparsemax(at::tensor({3.0, 0.0})), at::tensor({1.0, 0.0})));
  const Tensor x = at::randn({3, 5, 2});
  const Tensor y = Sparsemax(1)(x);
  EXPECT_TRUE(at::allclose(y.sum(1), at::ones({3, 2})));
  EXPECT_TRUE(at::allclose(y, sparsemax(x.transpose(1, 2)).transpose(1, 2)));
  EXPECT_GE(y.min().item<double>(), 0);
}

}  // namespace
}  // namespace tutti::keras::activations
