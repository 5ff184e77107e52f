// Each lowering on random numbers of random sizes and dtypes: against LibTorch, run by XLA on the CPU; compiled for a
// TPU by libtpu; and written for the oldest StableHLO.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <random>
#include <set>

#include "tests/support/error_of.h"
#include "tests/support/portable_artifact.h"
#include "tutti/core/str.h"
#include "tutti/pjrt/buffer.h"
#include "tutti/pjrt/compile_options.h"
#include "tutti/pjrt/executable.h"
#include "tutti/pjrt/topology_description.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

using at::Tensor;
using Stack = torch::jit::Stack;

// Draws sizes, dtypes and numbers.
class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) { at::manual_seed(seed); }
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool coin() { return integer(0, 1) == 1; }
  Dims sizes(int64_t low = 0, int64_t high = 3) {
    Dims dims;
    for (int64_t rank = integer(low, high); rank > 0; --rank) dims.push_back(integer(1, 5));
    return dims;
  }
  at::ScalarType real_dtype() { return integer(0, 3) ? at::kFloat : at::kDouble; }
  at::ScalarType any_dtype() { return integer(0, 3) ? real_dtype() : coin() ? at::kLong : at::kInt; }
  Tensor real(const Dims& dims, at::ScalarType dtype = at::kFloat) { return at::randn(dims, dtype); }
  Tensor positive(const Dims& dims, at::ScalarType dtype = at::kFloat) { return at::rand(dims, dtype) + 0.1; }
  Tensor any(const Dims& dims, at::ScalarType dtype) {
    return at::isFloatingType(dtype) ? real(dims, dtype) : at::randint(-5, 6, dims, dtype);
  }
  Tensor flags(const Dims& dims) { return at::rand(dims) > 0.5; }
  // Sizes that broadcast with these.
  Dims smaller(Dims dims) {
    if (!dims.empty() && coin()) dims.erase(dims.begin());
    for (int64_t& dim : dims)
      if (coin()) dim = 1;
    return dims;
  }

 private:
  std::mt19937 random_;
};

struct Case {
  const char* op;  // with its overload
  std::function<Stack(Draw&)> arguments;
};

const at::IValue kNone;

Stack of_one_real(Draw& d) { return {d.real(d.sizes(), d.real_dtype())}; }
Stack of_one_positive(Draw& d) { return {d.positive(d.sizes(), d.real_dtype())}; }
Stack of_one(Draw& d) { return {d.any(d.sizes(), d.any_dtype())}; }
Stack of_two(Draw& d) {
  const Dims dims = d.sizes();
  return {d.any(dims, d.any_dtype()), d.any(d.smaller(dims), d.any_dtype())};
}
Stack of_two_positive(Draw& d) {
  const Dims dims = d.sizes();
  const auto dtype = d.real_dtype();
  return {d.positive(dims, dtype), d.positive(d.smaller(dims), dtype)};
}
Stack of_two_scaled(Draw& d) {
  const auto dtype = d.real_dtype();
  const Dims dims = d.sizes();
  return {d.real(dims, dtype), d.real(d.smaller(dims), dtype), d.coin() ? at::Scalar(1) : at::Scalar(0.5)};
}
Stack of_number(Draw& d) { return {d.any(d.sizes(), d.any_dtype()), at::Scalar(d.integer(-2, 3))}; }
Stack of_flags(Draw& d) {
  const Dims dims = d.sizes();
  return {d.flags(dims), d.flags(d.smaller(dims))};
}
Stack of_wholes(Draw& d) {
  const Dims dims = d.sizes();
  return {d.any(dims, at::kInt), d.any(dims, at::kInt)};
}
Stack of_three(Draw& d) {
  const Dims dims = d.sizes();
  const auto dtype = d.real_dtype();
  return {d.real(dims, dtype), d.real(dims, dtype), d.positive(d.smaller(dims), dtype),
          at::Scalar(d.coin() ? 1.0 : 0.3)};
}
// A gradient, and an input or result of its sizes.
Stack of_gradient(Draw& d) {
  const Dims dims = d.sizes();
  return {d.real(dims), d.real(dims)};
}
Stack with(Stack stack, std::initializer_list<at::IValue> more) {
  stack.insert(stack.end(), more.begin(), more.end());
  return stack;
}
Stack of_axes(Draw& d) {
  const Dims dims = d.sizes(1);
  const std::vector<int64_t> axes{d.integer(-static_cast<int64_t>(dims.size()), static_cast<int64_t>(dims.size()) - 1)};
  return {d.real(dims, d.real_dtype()), axes, d.coin()};
}
Stack of_axis(Draw& d) {
  const Dims dims = d.sizes(1);
  return {d.real(dims, d.real_dtype()), d.integer(0, static_cast<int64_t>(dims.size()) - 1), d.coin()};
}
Stack of_softmax_gradient(Draw& d) {
  const Dims dims = d.sizes(1);
  return {d.real(dims), at::softmax(d.real(dims), -1), int64_t{-1}, at::kFloat};
}
Stack of_matrices(Draw& d) {
  const auto dtype = d.real_dtype();
  const int64_t k = d.integer(1, 6);
  return {d.real({d.integer(1, 5), k}, dtype), d.real({k, d.integer(1, 5)}, dtype)};
}

Stack of_convolution(Draw& d) {
  const int64_t groups = d.integer(1, 2), in = groups * (d.coin() ? d.integer(1, 2) : 9),
                out = groups * d.integer(1, 2);
  const int64_t axes = d.integer(1, 3);
  const auto for_each_axis = [&](int64_t low, int64_t high, Dims before = {}) {
    for (int64_t axis = 0; axis < axes; ++axis) before.push_back(d.integer(low, high));
    return before;
  };
  return {d.real(for_each_axis(6, 8, {d.integer(1, 3), in})),
          d.real(for_each_axis(1, 3, {out, in / groups})) * 0.2,  // hundreds of products are added
          d.coin() ? at::IValue(d.real({out})) : kNone,
          for_each_axis(1, 2),
          for_each_axis(0, 2),
          for_each_axis(1, 2),
          false,
          for_each_axis(0, 0),
          groups};
}
Stack of_convolution_backward(Draw& d) {
  Stack forward = of_convolution(d);
  const Tensor x = forward[0].toTensor(), kernel = forward[1].toTensor();
  const Tensor y = at::convolution(x, kernel, {}, forward[3].toIntVector(), forward[4].toIntVector(),
                                   forward[5].toIntVector(), false, forward[7].toIntVector(), forward[8].toInt());
  return {at::randn_like(y),
          x,
          kernel,
          std::vector<int64_t>{kernel.size(0)},
          forward[3],
          forward[4],
          forward[5],
          false,
          forward[7],
          forward[8],
          c10::List<bool>({true, true, true})};
}

struct Pool {
  Tensor x;
  std::vector<int64_t> sizes, strides, padding;
};
Pool draw_pool(Draw& d) {
  return {d.real({d.integer(1, 2), 2, d.integer(5, 8), d.integer(5, 8)}),
          {d.integer(2, 3), 2},
          {d.integer(1, 3), 2},
          {d.integer(0, 1), 0}};
}
Stack of_max_pool(Draw& d) {
  const Pool p = draw_pool(d);
  return {p.x, p.sizes, p.strides, p.padding, std::vector<int64_t>{1, 1}, false};
}
Stack of_max_pool_backward(Draw& d) {
  const Pool p = draw_pool(d);
  const auto [y, indices] = at::max_pool2d_with_indices(p.x, p.sizes, p.strides, p.padding);
  return {at::randn_like(y), p.x, p.sizes, p.strides, p.padding, std::vector<int64_t>{1, 1}, false, indices};
}
Stack of_average_pool(Draw& d) {
  const Pool p = draw_pool(d);
  return {p.x, p.sizes, p.strides, p.padding, false, d.coin(), kNone};
}
Stack of_average_pool_backward(Draw& d) {
  const Pool p = draw_pool(d);
  const bool padded = d.coin();
  const Tensor y = at::avg_pool2d(p.x, p.sizes, p.strides, p.padding, false, padded);
  return {at::randn_like(y), p.x, p.sizes, p.strides, p.padding, false, padded, kNone};
}

Stack of_layer_norm(Draw& d) {
  const Dims dims{d.integer(1, 4), d.integer(1, 4), d.integer(4, 8)};
  return {d.real(dims), std::vector<int64_t>{dims[2]}, d.real({dims[2]}), d.real({dims[2]}), 1e-5};
}
Stack of_layer_norm_backward(Draw& d) {
  const Stack f = of_layer_norm(d);
  const auto [y, mean, scale] =
      at::native_layer_norm(f[0].toTensor(), f[1].toIntVector(), f[2].toTensor(), f[3].toTensor(), 1e-5);
  return {at::randn_like(y), f[0], f[1], mean, scale, f[2], f[3], c10::List<bool>({true, true, true})};
}
Stack of_batch_norm(Draw& d) {
  const int64_t channels = d.integer(1, 4);
  return {d.real({d.integer(2, 4), channels, d.integer(2, 4)}),
          d.real({channels}),
          d.real({channels}),
          d.real({channels}),
          d.positive({channels}),
          d.coin(),
          0.1,
          1e-5};
}
Stack of_batch_norm_backward(Draw& d) {
  const Stack f = of_batch_norm(d);
  const auto [y, mean, scale] =
      at::native_batch_norm(f[0].toTensor(), f[1].toTensor(), f[2].toTensor(), f[3].toTensor().clone(),
                            f[4].toTensor().clone(), f[5].toBool(), 0.1, 1e-5);
  return {at::randn_like(y), f[0], f[1], f[3], f[4], mean, scale, f[5], 1e-5, c10::List<bool>({true, true, true})};
}

struct Classes {
  Tensor x, target;
};
Classes draw_classes(Draw& d) {
  const int64_t rows = d.integer(1, 6), classes = d.integer(2, 5);
  Tensor target = at::randint(0, classes, {rows}, at::kLong);
  if (rows > 1) target[0] = -100;
  return {at::log_softmax(d.real({rows, classes}), 1), target};
}
at::IValue weight_or_none(Draw& d, const Tensor& x) { return d.coin() ? at::IValue(d.positive({x.size(1)})) : kNone; }
Stack of_nll(Draw& d) {
  const Classes c = draw_classes(d);
  return {c.x, c.target, weight_or_none(d, c.x), d.integer(0, 2), int64_t{-100}};
}
Stack of_nll_backward(Draw& d) {
  const Classes c = draw_classes(d);
  const at::IValue weight = weight_or_none(d, c.x);
  const int64_t reduction = d.integer(0, 2);
  const auto [loss, total] = at::nll_loss_forward(c.x, c.target, weight.toOptional<Tensor>(), reduction, -100);
  return {at::randn_like(loss), c.x, c.target, weight, reduction, int64_t{-100}, total};
}
Stack of_probabilities(Draw& d) {
  const Dims dims = d.sizes(1);
  return {at::rand(dims) * 0.9 + 0.05, at::rand(dims), kNone, d.integer(0, 2)};
}

Stack of_rows(Draw& d) {
  const Dims dims = d.sizes(1);
  return {d.real({7, d.integer(1, 4)}), at::randint(0, 7, dims, at::kLong), int64_t{-1}, false, false};
}
Stack of_embedding_backward(Draw& d) {
  Dims dims = d.sizes(1);
  const Tensor index = at::randint(0, 7, dims, at::kLong);
  dims.push_back(d.integer(1, 4));
  return {d.real(dims), index, int64_t{7}, d.coin() ? int64_t{-1} : int64_t{2}, false};
}
Stack of_index_select(Draw& d) {
  const Dims dims = d.sizes(1);
  const int64_t axis = d.integer(0, static_cast<int64_t>(dims.size()) - 1);
  return {d.real(dims), axis, at::randint(0, dims[static_cast<size_t>(axis)], {d.integer(1, 4)}, at::kLong)};
}
Stack of_gather(Draw& d) {
  const Dims dims = d.sizes(1);
  const auto axis = static_cast<size_t>(d.integer(0, static_cast<int64_t>(dims.size()) - 1));
  Dims index = dims;
  index[axis] = d.integer(1, 4);
  return {d.real(dims), static_cast<int64_t>(axis), at::randint(0, dims[axis], index, at::kLong), false};
}
Stack of_triangle(Draw& d) { return {d.any(d.sizes(2), d.any_dtype()), d.integer(-2, 2)}; }

Stack of_parts(Draw& d, bool equal) {
  const Dims dims = d.sizes(1);
  const int64_t axis = d.integer(-static_cast<int64_t>(dims.size()), static_cast<int64_t>(dims.size()) - 1);
  std::vector<Tensor> parts;
  for (int64_t i = d.integer(1, 3); i > 0; --i) {
    Dims part = dims;
    if (!equal) part[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis)] = d.integer(1, 4);
    parts.push_back(d.real(part));
  }
  return {c10::List<Tensor>(parts), axis};
}
Stack of_slice_backward(Draw& d) {
  const int64_t from = d.integer(0, 3), to = d.integer(from + 1, 7), step = d.integer(1, 3);
  const std::vector<int64_t> sizes{3, 7, 2};
  return {d.real({3, (to - from + step - 1) / step, 2}), sizes, int64_t{1}, from, to, step};
}
Stack of_select_backward(Draw& d) {
  return {d.real({3, 2}), std::vector<int64_t>{3, 7, 2}, int64_t{1}, d.integer(-7, 6)};
}
Stack of_padding(Draw& d) {
  const std::vector<int64_t> amounts{d.integer(-1, 2), d.integer(0, 2), d.integer(0, 2), d.integer(0, 2)};
  return {d.real({3, 4, 5}), amounts, at::Scalar(0.5)};
}
Stack of_repeats(Draw& d) {
  const Dims dims = d.sizes(1, 2);
  std::vector<int64_t> times;
  for (size_t i = 0; i < dims.size() + static_cast<size_t>(d.integer(0, 1)); ++i) times.push_back(d.integer(1, 3));
  return {d.real(dims), times};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"aten::exp", of_one_real},
      {"aten::expm1", of_one_real},
      {"aten::sin", of_one_real},
      {"aten::cos", of_one_real},
      {"aten::tanh", of_one_real},
      {"aten::sigmoid", of_one_real},
      {"aten::neg", of_one_real},
      {"aten::abs", of_one_real},
      {"aten::sign", of_one_real},
      {"aten::floor", of_one_real},
      {"aten::ceil", of_one_real},
      {"aten::round", of_one_real},
      {"aten::trunc", of_one_real},
      {"aten::square", of_one_real},
      {"aten::isnan", of_one_real},
      {"aten::log", of_one_positive},
      {"aten::log1p", of_one_positive},
      {"aten::sqrt", of_one_positive},
      {"aten::rsqrt", of_one_positive},
      {"aten::reciprocal", of_one_positive},
      {"aten::neg", of_one},
      {"aten::abs", of_one},
      {"aten::sign", of_one},
      {"aten::erf", [](Draw& d) { return Stack{d.real(d.sizes())}; }},
      {"aten::mul.Tensor", of_two},
      {"aten::maximum", of_two},
      {"aten::minimum", of_two},
      {"aten::eq.Tensor", of_two},
      {"aten::ne.Tensor", of_two},
      {"aten::lt.Tensor", of_two},
      {"aten::le.Tensor", of_two},
      {"aten::gt.Tensor", of_two},
      {"aten::ge.Tensor", of_two},
      {"aten::logical_and", of_two},
      {"aten::logical_or", of_two},
      {"aten::logical_xor", of_two},
      {"aten::div.Tensor", of_two_positive},
      {"aten::pow.Tensor_Tensor", of_two_positive},
      {"aten::atan2", of_two_positive},
      {"aten::remainder.Tensor", of_two_positive},
      {"aten::add.Tensor", of_two_scaled},
      {"aten::sub.Tensor", of_two_scaled},
      {"aten::rsub.Scalar",
       [](Draw& d) {
         return with(of_one_real(d), {at::Scalar(1.5), at::Scalar(2)});
       }},
      {"aten::remainder.Scalar", [](Draw& d) { return with(of_one_real(d), {at::Scalar(-0.7)}); }},
      {"aten::add.Scalar", [](Draw& d) { return with(of_number(d), {at::Scalar(1)}); }},
      {"aten::mul.Scalar", of_number},
      {"aten::eq.Scalar", of_number},
      {"aten::gt.Scalar", of_number},
      {"aten::clamp_min", of_number},
      {"aten::clamp_max", of_number},
      {"aten::pow.Tensor_Scalar", [](Draw& d) { return with(of_one_positive(d), {at::Scalar(d.integer(1, 3))}); }},
      {"aten::clamp",
       [](Draw& d) {
         return with(of_one_real(d), {at::Scalar(-0.5), d.coin() ? at::IValue(0.5) : kNone});
       }},
      {"aten::bitwise_and.Tensor", of_wholes},
      {"aten::bitwise_or.Tensor", of_wholes},
      {"aten::bitwise_xor.Tensor", of_wholes},
      {"aten::bitwise_and.Tensor", of_flags},
      {"aten::logical_not", [](Draw& d) { return Stack{d.flags(d.sizes())}; }},
      {"aten::bitwise_not", [](Draw& d) { return Stack{d.flags(d.sizes())}; }},
      {"aten::addcmul", of_three},
      {"aten::addcdiv", of_three},
      {"aten::lerp.Scalar", [](Draw& d) { return with(of_gradient(d), {at::Scalar(0.3)}); }},
      {"aten::where.self",
       [](Draw& d) {
         const Dims dims = d.sizes();
         return Stack{d.flags(d.smaller(dims)), d.real(dims), d.real(d.smaller(dims))};
       }},
      {"aten::masked_fill.Scalar",
       [](Draw& d) {
         const Dims dims = d.sizes();
         return Stack{d.any(dims, d.any_dtype()), d.flags(d.smaller(dims)), at::Scalar(3)};
       }},
      {"aten::relu", of_one_real},
      {"aten::silu", of_one_real},
      {"aten::threshold_backward", [](Draw& d) { return with(of_gradient(d), {at::Scalar(0)}); }},
      {"aten::softplus",
       [](Draw& d) {
         return with(of_one_real(d), {at::Scalar(2), at::Scalar(1)});
       }},
      {"aten::softplus_backward",
       [](Draw& d) {
         return with(of_gradient(d), {at::Scalar(2), at::Scalar(1)});
       }},
      {"aten::leaky_relu", [](Draw& d) { return with(of_one_real(d), {at::Scalar(0.2)}); }},
      {"aten::leaky_relu_backward",
       [](Draw& d) {
         return with(of_gradient(d), {at::Scalar(0.2), false});
       }},
      {"aten::elu",
       [](Draw& d) {
         return with(of_one_real(d), {at::Scalar(1.5), at::Scalar(1), at::Scalar(2)});
       }},
      {"aten::elu_backward",
       [](Draw& d) {
         const Stack s = of_gradient(d);
         return Stack{s[0], at::Scalar(1.5), at::Scalar(1.2), at::Scalar(2), d.coin(), s[1]};
       }},
      {"aten::hardtanh",
       [](Draw& d) {
         return with(of_one_real(d), {at::Scalar(-0.5), at::Scalar(0.5)});
       }},
      {"aten::hardtanh_backward",
       [](Draw& d) {
         return with(of_gradient(d), {at::Scalar(-0.5), at::Scalar(0.5)});
       }},
      {"aten::silu_backward", of_gradient},
      {"aten::tanh_backward", of_gradient},
      {"aten::sigmoid_backward", of_gradient},
      {"aten::gelu",
       [](Draw& d) {
         return Stack{d.real(d.sizes()), d.coin() ? "none" : "tanh"};
       }},
      {"aten::gelu_backward", [](Draw& d) { return with(of_gradient(d), {d.coin() ? "none" : "tanh"}); }},
      {"aten::sum.dim_IntList", [](Draw& d) { return with(of_axes(d), {kNone}); }},
      {"aten::sum", [](Draw& d) { return with(of_one(d), {kNone}); }},
      {"aten::mean.dim", [](Draw& d) { return with(of_axes(d), {kNone}); }},
      {"aten::mean", [](Draw& d) { return with(of_one_real(d), {kNone}); }},
      {"aten::amax", of_axes},
      {"aten::amin", of_axes},
      {"aten::max.dim", of_axis},
      {"aten::max", of_one},
      {"aten::argmax", of_axis},
      {"aten::any.dim",
       [](Draw& d) {
         Stack s = of_axis(d);
         s[0] = s[0].toTensor() > 0;
         return s;
       }},
      {"aten::all", [](Draw& d) { return Stack{d.flags(d.sizes())}; }},
      {"aten::any", [](Draw& d) { return Stack{d.flags(d.sizes())}; }},
      {"aten::var.correction",
       [](Draw& d) {
         return Stack{d.real({d.integer(2, 4), 3, 2}), std::vector<int64_t>{0, 1}, at::Scalar(d.integer(0, 1)),
                      d.coin()};
       }},
      {"aten::_softmax",
       [](Draw& d) {
         Stack s = of_axis(d);
         s[2] = false;
         return s;
       }},
      {"aten::_safe_softmax",
       [](Draw& d) {
         const Tensor x = d.real({d.integer(1, 4), d.integer(1, 5)}, d.real_dtype());
         if (d.coin()) x[0].fill_(-std::numeric_limits<double>::infinity());
         x[-1][0] = -std::numeric_limits<double>::infinity();
         return Stack{x, int64_t{-1}, kNone};
       }},
      {"aten::_log_softmax",
       [](Draw& d) {
         Stack s = of_axis(d);
         s[2] = false;
         return s;
       }},
      {"aten::_softmax_backward_data", of_softmax_gradient},
      {"aten::_log_softmax_backward_data", of_softmax_gradient},
      {"aten::mm", of_matrices},
      {"aten::bmm",
       [](Draw& d) {
         const int64_t n = d.integer(1, 3), k = d.integer(1, 4);
         return Stack{d.real({n, 3, k}), d.real({n, k, 2})};
       }},
      {"aten::mv",
       [](Draw& d) {
         const Stack s = of_matrices(d);
         return Stack{s[0], s[1].toTensor().select(1, 0)};
       }},
      {"aten::dot",
       [](Draw& d) {
         const int64_t n = d.integer(1, 9);
         return Stack{d.real({n}), d.real({n})};
       }},
      {"aten::addmm",
       [](Draw& d) {
         const Stack s = of_matrices(d);
         const Tensor y = s[1].toTensor();
         return Stack{d.real({y.size(1)}, y.scalar_type()), s[0], y, at::Scalar(d.coin() ? 1 : 0.5),
                      at::Scalar(d.coin() ? 1 : 2)};
       }},
      {"aten::baddbmm",
       [](Draw& d) {
         return Stack{d.real({2, 3, 4}), d.real({2, 3, 5}), d.real({2, 5, 4}), at::Scalar(d.coin() ? 1 : 0),
                      at::Scalar(0.5)};
       }},
      {"aten::addmv",
       [](Draw& d) {
         return Stack{d.real({3}), d.real({3, 5}), d.real({5}), at::Scalar(1), at::Scalar(0.5)};
       }},
      {"aten::convolution", of_convolution},
      {"aten::convolution_backward", of_convolution_backward},
      {"aten::max_pool2d_with_indices", of_max_pool},
      {"aten::max_pool2d_with_indices_backward", of_max_pool_backward},
      {"aten::avg_pool2d", of_average_pool},
      {"aten::avg_pool2d_backward", of_average_pool_backward},
      {"aten::_adaptive_avg_pool2d",
       [](Draw& d) {
         return Stack{d.real({2, 3, 2 * d.integer(1, 3), 4}), std::vector<int64_t>{2, d.coin() ? 1 : 2}};
       }},
      {"aten::native_layer_norm", of_layer_norm},
      {"aten::native_layer_norm_backward", of_layer_norm_backward},
      {"aten::native_batch_norm", of_batch_norm},
      {"aten::native_batch_norm_backward", of_batch_norm_backward},
      {"aten::nll_loss_forward", of_nll},
      {"aten::nll_loss_backward", of_nll_backward},
      {"aten::mse_loss", [](Draw& d) { return with(of_gradient(d), {d.integer(0, 2)}); }},
      {"aten::mse_loss_backward",
       [](Draw& d) {
         const Stack s = of_gradient(d);
         const int64_t reduction = d.integer(0, 2);
         return Stack{reduction ? d.real({}) : at::randn_like(s[0].toTensor()), s[0], s[1], reduction};
       }},
      {"aten::binary_cross_entropy", of_probabilities},
      {"aten::binary_cross_entropy_backward",
       [](Draw& d) {
         const Stack s = of_probabilities(d);
         return Stack{s[3].toInt() ? d.real({}) : at::randn_like(s[0].toTensor()), s[0], s[1], s[2], s[3]};
       }},
      {"aten::embedding", of_rows},
      {"aten::embedding_dense_backward", of_embedding_backward},
      {"aten::index_select", of_index_select},
      {"aten::gather", of_gather},
      {"aten::tril", of_triangle},
      {"aten::triu", of_triangle},
      {"aten::cat", [](Draw& d) { return of_parts(d, false); }},
      {"aten::stack", [](Draw& d) { return of_parts(d, true); }},
      {"aten::slice_backward", of_slice_backward},
      {"aten::select_backward", of_select_backward},
      {"aten::constant_pad_nd", of_padding},
      {"aten::flip",
       [](Draw& d) {
         return Stack{d.real({2, 3, 4}), d.coin() ? std::vector<int64_t>{1} : std::vector<int64_t>{0, -1}};
       }},
      {"aten::repeat", of_repeats},
      {"aten::clone", [](Draw& d) { return with(of_one(d), {kNone}); }},
      {"aten::_to_copy",
       [](Draw& d) {
         return with(of_one(d), {d.any_dtype(), kNone, kNone, kNone, false, kNone});
       }},
      {"aten::copy",
       [](Draw& d) {
         const Dims dims = d.sizes();
         return Stack{d.any(dims, d.any_dtype()), d.any(d.smaller(dims), d.any_dtype()), false};
       }},
      {"aten::_unsafe_view",
       [](Draw& d) {
         return Stack{d.real({2, 3, 4}), std::vector<int64_t>{d.coin() ? 6 : 12, -1}};
       }},
      {"aten::zeros_like",
       [](Draw& d) {
         return with(of_one(d), {kNone, kNone, kNone, kNone, kNone});
       }},
      {"aten::ones_like",
       [](Draw& d) {
         return with(of_one(d), {kNone, kNone, kNone, kNone, kNone});
       }},
      {"aten::full_like",
       [](Draw& d) {
         return with(of_one(d), {at::Scalar(3), kNone, kNone, kNone, kNone, kNone});
       }},
      {"aten::fill.Scalar", of_number},
      {"aten::zeros",
       [](Draw& d) {
         return Stack{d.sizes(), d.any_dtype(), kNone, kNone, kNone};
       }},
      {"aten::ones",
       [](Draw& d) {
         return Stack{d.sizes(), d.any_dtype(), kNone, kNone, kNone};
       }},
      {"aten::full", [](Draw& d) { return Stack{d.sizes(), at::Scalar(2.5), d.real_dtype(), kNone, kNone, kNone}; }},
      {"aten::new_zeros", [](Draw& d) { return Stack{d.real({2}), d.sizes(), kNone, kNone, kNone, kNone}; }},
      {"aten::new_ones", [](Draw& d) { return Stack{d.real({2}), d.sizes(), kNone, kNone, kNone, kNone}; }},
      {"aten::new_full",
       [](Draw& d) { return Stack{d.real({2}), d.sizes(), at::Scalar(4), kNone, kNone, kNone, kNone}; }},
      {"aten::scalar_tensor",
       [](Draw& d) {
         return Stack{at::Scalar(static_cast<double>(d.integer(0, 9))), d.real_dtype(), kNone, kNone, kNone};
       }},
      {"aten::arange",
       [](Draw& d) {
         return Stack{at::Scalar(d.integer(1, 9)), d.any_dtype(), kNone, kNone, kNone};
       }},
      {"aten::arange.start_step",
       [](Draw& d) {
         return Stack{at::Scalar(d.integer(0, 4)),
                      at::Scalar(d.integer(5, 9)),
                      at::Scalar(d.integer(1, 2)),
                      d.any_dtype(),
                      kNone,
                      kNone,
                      kNone};
       }},
  };
  return all;
}

c10::OperatorHandle handle_of(const std::string& op) {
  const size_t point = op.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(op.substr(0, point).c_str(),
                                                        point == std::string::npos ? "" : op.substr(point + 1).c_str());
}

Dims dims_of(const Tensor& tensor) { return {tensor.sizes().begin(), tensor.sizes().end()}; }

pjrt::ElementType element_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool: return pjrt::ElementType::boolean;
    case at::kInt: return pjrt::ElementType::int32;
    case at::kLong: return pjrt::ElementType::int64;
    case at::kDouble: return pjrt::ElementType::float64;
    default: return pjrt::ElementType::float32;
  }
}

// A program of several calls, what they are given, and what LibTorch makes of that.
struct Comparison {
  Builder builder;
  std::vector<Tensor> arguments = {};
  std::vector<Value> results = {};
  std::vector<Tensor> expected = {};

  Operand operand_of(const at::IValue& argument) {
    const auto take = [&](const Tensor& tensor) -> std::optional<Value> {
      arguments.push_back(tensor.contiguous());
      return builder.argument({tensor.scalar_type(), dims_of(tensor)});
    };
    if (argument.isTensor()) return {.values = {take(argument.toTensor())}, .is_tensor = true};
    if (!argument.isTensorList()) return {.constant = argument};
    Operand operand{.is_tensor = true};
    for (const Tensor& tensor : argument.toTensorVector()) operand.values.push_back(take(tensor));
    return operand;
  }

  void add(const Case& one, Draw& draw) {
    const Stack arguments_of_op = one.arguments(draw);
    Call call{.op = base_name(one.op)};
    for (const at::IValue& argument : arguments_of_op) call.arguments.push_back(operand_of(argument));
    for (Tensor& argument : arguments) argument = argument.clone();  // ops write to running statistics
    Stack stack = arguments_of_op;
    handle_of(one.op).callBoxed(stack);
    std::vector<Tensor> given;
    for (const at::IValue& result : stack) given.push_back(result.toTensor());
    for (const Tensor& result : given) call.results.push_back({result.scalar_type(), dims_of(result)});
    const Results lowered = lower(builder, call, "in this test");
    for (size_t i = 0; i < given.size(); ++i) {
      if (!lowered.at(i)) continue;
      results.push_back(*lowered[i]);
      expected.push_back(given[i]);
    }
  }
  std::string module() const { return builder.module("test", results, {}, 1); }
};

std::vector<Tensor> run(pjrt::Client& client, const Comparison& comparison) {
  const auto program = client.compile(comparison.module(), {});
  std::vector<pjrt::Buffer> buffers;
  for (const Tensor& argument : comparison.arguments)
    buffers.push_back(
        client.put({argument.const_data_ptr(), element_type(argument.scalar_type()), dims_of(argument)}, 0));
  std::vector<const pjrt::Buffer*> arguments;
  for (const pjrt::Buffer& buffer : buffers) arguments.push_back(&buffer);
  const auto made = program.run({arguments});
  std::vector<Tensor> results;
  for (size_t i = 0; i < comparison.expected.size(); ++i) {
    auto result = std::make_shared<Tensor>(at::empty_like(comparison.expected[i], at::MemoryFormat::Contiguous));
    made.outputs[0][i].read(result->data_ptr(), static_cast<int64_t>(result->nbytes()), result).wait();
    results.push_back(*result);
  }
  return results;
}

constexpr int kDraws = 20;

class OpLowering : public testing::TestWithParam<size_t> {
 protected:
  static const Case& the_case() { return cases()[GetParam()]; }
  static Comparison drawn() {
    Comparison comparison;
    Draw draw(static_cast<uint32_t>(GetParam()) + 1);
    for (int i = 0; i < kDraws; ++i) comparison.add(the_case(), draw);
    return comparison;
  }
};

#define SKIP_WITHOUT(plugin) \
  if (!std::filesystem::exists(plugin)) GTEST_SKIP() << "there is no plugin here: ./dev test -L pjrt fetches it"

TEST_P(OpLowering, GivesWhatLibTorchGives) {
  SKIP_WITHOUT(TUTTI_XLA_CPU_PLUGIN);
  static const auto client = pjrt::Client::create(pjrt::Plugin::load(TUTTI_XLA_CPU_PLUGIN));
  const Comparison comparison = drawn();
  const std::vector<Tensor> results = run(*client, comparison);
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& expected = comparison.expected[i];
    EXPECT_TRUE(at::isIntegralType(expected.scalar_type(), true) ? at::equal(results[i], expected)
                                                                 : at::allclose(results[i], expected, 1e-5, 2e-6, true))
        << the_case().op << ", result " << i << " of " << str_list(dims_of(expected)) << ":\n"
        << results[i] << "\n, LibTorch's\n"
        << expected;
  }
}

TEST_P(OpLowering, CompilesForAV5e) {
  SKIP_WITHOUT(TUTTI_LIBTPU);
  static const pjrt::TopologyDescription v5e(pjrt::Plugin::load(TUTTI_LIBTPU), "v5e:2x2");
  EXPECT_GT(v5e.compile(drawn().module(), {}).code_bytes(), 0);
}

TEST_P(OpLowering, IsReadByTheOldestStablehlo) {
  SKIP_WITHOUT(TUTTI_XLA_CPU_PLUGIN);
  EXPECT_THAT(pjrt::portable_artifact(TUTTI_XLA_CPU_PLUGIN, drawn().module(), "0.9.0"),
              testing::HasSubstr("StableHLO_v0.9.0"));
}

std::string name_of_case(const testing::TestParamInfo<size_t>& info) {
  std::string name = str(cases()[info.param].op, '_', info.param);
  std::erase_if(name, [](char c) { return c == ':'; });
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Ops, OpLowering, testing::Range(size_t{0}, cases().size()), name_of_case);

TEST(Lowerings, AreAllCompared) {
  std::set<std::string> compared{"zero", "contiguous",
                                 "_reshape_copy"};  // the others of these: fill, clone, _unsafe_view
  for (const NamedLowering& one : random_lowerings()) compared.insert(one.op);  // in random_test.cpp
  for (const Case& one : cases()) compared.insert(base_name(one.op));
  for (const std::string& op : lowered_ops()) EXPECT_TRUE(compared.contains(op)) << op;
  EXPECT_GE(lowered_ops().size(), 120u);
}

TEST(Lowerings, AnOpWithoutOneIsNamedWithItsPlace) {
  Builder builder;
  EXPECT_EQ(
      error_of([&] { lower(builder, {.op = "linalg_svd"}, "call 7 of the function train_step"); }),
      "unimplemented: aten::linalg_svd cannot be compiled for an accelerator yet: call 7 of the function train_step; "
      "write it with other operations, or do it outside of the compiled function");
}

TEST(Lowerings, NamesOfOverloadsAreOne) {
  EXPECT_EQ(base_name("aten::add_.Tensor"), "add");
  EXPECT_EQ(base_name("aten::_softmax.out"), "_softmax");
  EXPECT_EQ(base_name("aten::relu_"), "relu");
}

}  // namespace
}  // namespace tutti::stablehlo
