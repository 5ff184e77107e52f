#include "tutti/function/native_convolution.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "tutti/function/direct_convolution.h"
#include "tutti/function/matrix_product.h"
#include "tutti/function/native_trial.h"

namespace tutti {
namespace {

using at::Tensor;
using Stack = torch::jit::Stack;

constexpr double kMostOperationsOfATrial = 3e8;  // a few milliseconds

struct Convolution {
  Tensor images, weights;
  Tensor bias;                      // undefined: none
  Tensor gradient;                  // of the result; undefined: that is what is computed
  std::array<bool, 3> wanted = {};  // else: the gradients of images, weights and bias

  bool is_backward() const { return gradient.defined(); }
  ConvolutionShape shape() const {
    return {images.size(0),  images.size(1),  images.size(2), images.size(3),
            weights.size(0), weights.size(2), weights.size(3)};
  }
};

using Results = std::array<Tensor, 3>;  // the result, or gradients, of which some are undefined

Tensor tensor_or_none(const at::IValue& value) { return value.isTensor() ? value.toTensor() : Tensor(); }

bool is_plain(const Tensor& x, int64_t dim) {
  return x.defined() && lies_plainly(x, at::kFloat) && x.dim() == dim && x.numel() > 0;
}

// `first`: the number of the argument stride, behind which come padding, dilation, transposed, output_padding, groups.
bool is_simple(const Stack& arguments, size_t first) {
  const auto all = [&](size_t i, int64_t wanted) {
    const auto numbers = arguments[first + i].toIntVector();
    return std::all_of(numbers.begin(), numbers.end(), [&](int64_t number) { return number == wanted; });
  };
  return all(0, 1) && all(1, 0) && all(2, 1) && !arguments[first + 3].toBool() && all(4, 0) &&
         arguments[first + 5].toInt() == 1;
}

// (input, weight, bias, stride, …) or (grad_output, input, weight, bias_sizes, stride, …, output_mask)
std::optional<Convolution> convolution_of(const std::string& op, const Stack& arguments) {
  Convolution made;
  if (op == "aten::convolution") {
    if (!is_simple(arguments, 3)) return {};
    made = {arguments[0].toTensor(), arguments[1].toTensor(), tensor_or_none(arguments[2])};
    if (made.bias.defined() && !is_plain(made.bias, 1)) return {};
  } else if (op == "aten::convolution_backward") {
    if (!is_simple(arguments, 4)) return {};
    made = {arguments[1].toTensor(), arguments[2].toTensor(), {}, arguments[0].toTensor()};
    const auto mask = arguments[10].toBoolList();
    for (size_t i = 0; i < made.wanted.size(); ++i) made.wanted[i] = mask[i];
    if (!is_plain(made.gradient, 4) || (!made.wanted[0] && !made.wanted[1]) || (made.wanted[2] && !made.wanted[1]))
      return {};
  } else {
    return {};
  }
  if (!is_plain(made.images, 4) || !is_plain(made.weights, 4)) return {};
  const ConvolutionShape shape = made.shape();
  if (shape.rows() < 1 || shape.columns() < 1) return {};
  const int64_t joined = !made.is_backward() ? shape.in_channels : made.wanted[0] ? shape.out_channels : 1;
  if (joined > DirectConvolution::kMostChannels) return {};
  return made;
}

void compute(DirectConvolution& convolution, const Convolution& of, const Results& results) {
  const auto from = [](const Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; };
  const auto to = [&](size_t i) { return results[i].defined() ? results[i].mutable_data_ptr<float>() : nullptr; };
  if (!of.is_backward()) return convolution.convolve(from(of.images), from(of.weights), from(of.bias), to(0));
  if (of.wanted[0]) convolution.gradient_of_input(from(of.gradient), from(of.weights), to(0));
  if (of.wanted[1]) convolution.gradient_of_weights(from(of.gradient), from(of.images), to(1), to(2));
}

Results by_libtorch(const Convolution& of) {
  const std::array<int64_t, 2> ones{1, 1}, zeros{0, 0};
  if (!of.is_backward()) return {at::convolution(of.images, of.weights, of.bias, ones, zeros, ones, false, zeros, 1)};
  const std::array<int64_t, 1> bias_sizes{of.weights.size(0)};
  auto [images, weights, bias] = at::convolution_backward(of.gradient, of.images, of.weights, bias_sizes, ones, zeros,
                                                          ones, false, zeros, 1, of.wanted);
  return {images, weights, bias};
}

Results memory_for(const Convolution& of) {
  const ConvolutionShape shape = of.shape();
  if (!of.is_backward()) return {at::empty({shape.images, shape.out_channels, shape.rows(), shape.columns()})};
  Results memory;
  if (of.wanted[0]) memory[0] = at::empty(of.images.sizes());
  if (of.wanted[1]) memory[1] = at::empty(of.weights.sizes());
  if (of.wanted[2]) memory[2] = at::empty({shape.out_channels});
  return memory;
}

bool passes_a_trial(const Convolution& shapes) {
  DirectConvolution convolution(shapes.shape());
  Convolution tried = shapes;
  Results own = memory_for(shapes), wanted;
  return passes({.draw =
                     [&](const at::Generator& generator, bool tiny) {
                       const double most = tiny ? 1e-36 : 1, other = tiny ? 1e-9 : 1;
                       tried.images = random_like(shapes.images, shapes.is_backward() ? other : most, generator);
                       tried.weights = random_like(shapes.weights, other, generator);
                       tried.bias = random_like(shapes.bias, tiny ? 0 : 1, generator);
                       tried.gradient = random_like(shapes.gradient, most, generator);
                     },
                 .own = [&] { compute(convolution, tried, own); },
                 .theirs = [&] { wanted = by_libtorch(tried); },
                 .agrees =
                     [&] {
                       return std::equal(own.begin(), own.end(), wanted.begin(), [](const Tensor& a, const Tensor& b) {
                         return has_the_bits_of(a, b) && (!b.defined() || b.is_contiguous());
                       });
                     }});
}

// One trial for each kind of convolution, in a process.
bool passed_a_trial(const Convolution& convolution) {
  using Kind = std::tuple<ConvolutionShape, bool, bool, std::array<bool, 3>>;
  static std::mutex mutex;
  static std::map<Kind, bool> outcomes;
  const Kind kind{convolution.shape(), convolution.is_backward(), convolution.bias.defined(), convolution.wanted};
  const std::lock_guard lock(mutex);
  const auto known = outcomes.find(kind);
  if (known != outcomes.end()) return known->second;
  return outcomes[kind] = passes_a_trial(convolution);
}

double operations_of(const ConvolutionShape& shape) {
  return 2.0 * static_cast<double>(shape.images * shape.results()) * static_cast<double>(shape.taps()) *
         static_cast<double>(shape.in_channels * shape.out_channels);
}

}  // namespace

NativeKernel native_convolution_of(const std::string& op, const Stack& arguments) {
  if (!multiplies_in_vectors() || at::get_num_threads() > 1) return nullptr;
  const auto known = convolution_of(op, arguments);
  if (!known || operations_of(known->shape()) > kMostOperationsOfATrial || !passed_a_trial(*known)) return nullptr;
  return [direct = std::make_shared<DirectConvolution>(known->shape()), wanted = known->wanted,
          backward = known->is_backward()](const Stack& called) {
    if (backward)
      compute(*direct, {called[1].toTensor(), called[2].toTensor(), {}, called[0].toTensor(), wanted},
              {tensor_or_none(called[11]), tensor_or_none(called[12]), tensor_or_none(called[13])});
    else
      compute(*direct, {called[0].toTensor(), called[1].toTensor(), tensor_or_none(called[2])}, {called[9].toTensor()});
  };
}

}  // namespace tutti
