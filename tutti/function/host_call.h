#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti {

// Of the tensor that a host_call gives.
struct HostResult {
  std::vector<int64_t> shape = {};
  at::ScalarType dtype = at::kFloat;
};

namespace function_internal {

using HostFunction = std::function<Tensor(at::ArrayRef<Tensor> inputs)>;

Tensor host_call(at::ArrayRef<Tensor> inputs, const HostResult& result, HostFunction f);
void host_call(at::ArrayRef<Tensor> inputs, HostFunction f);

// F takes as many tensors as there are inputs, and returns a Tensor or nothing.
template <class F, class... Inputs>
HostFunction of_list(F f) {
  return [f = std::move(f)](at::ArrayRef<Tensor> inputs) mutable -> Tensor {
    return [&]<size_t... i>(std::index_sequence<i...>)->Tensor {
      if constexpr (!std::is_void_v<std::invoke_result_t<F&, const Inputs&...>>) return f(inputs[i]...);
      f(inputs[i]...);
      return {};
    }
    (std::index_sequence_for<Inputs...>());
  };
}

}  // namespace function_internal

// Has C++ work with the values of tensors, in a recorded function too: there f is called again in each replay, with the
// values that the inputs have then. It may read them by item() or data_ptr(), may not write to them, and what it does
// with tensors is no part of the recording. f takes a const Tensor& for each input, and returns a tensor or nothing.
//
//   const Tensor sorted = host_call(sort_slowly, {.shape = {10}, .dtype = at::kFloat}, x);
//   host_call([&](const Tensor& loss) { losses.push_back(loss.item<float>()); }, loss);
//
// The first form gives a new tensor of the shape and dtype that are named, without a gradient.
// Throws: invalid_argument if f returns another shape or dtype, or if a gradient would have to go through f.
// TF: tf.py_function.
template <class F, std::derived_from<Tensor>... Inputs>
Tensor host_call(F f, const HostResult& result, const Inputs&... inputs) {
  static_assert(std::is_invocable_r_v<Tensor, F&, const Inputs&...>, "f takes each input and returns a Tensor");
  const std::vector<Tensor> all = {inputs...};
  return function_internal::host_call(all, result, function_internal::of_list<F, Inputs...>(std::move(f)));
}
template <class F, std::derived_from<Tensor>... Inputs>
void host_call(F f, const Inputs&... inputs) {
  static_assert(std::is_invocable_v<F&, const Inputs&...>, "f takes each input");
  static_assert(std::is_void_v<std::invoke_result_t<F&, const Inputs&...>>,
                "what f returns has to be named: host_call(f, {.shape = …, .dtype = …}, inputs…)");
  const std::vector<Tensor> all = {inputs...};
  function_internal::host_call(all, function_internal::of_list<F, Inputs...>(std::move(f)));
}

// Calls f. What it does is no part of a recording, so that it happens while a function is recorded, and never in a
// replay: tensors that it makes are constants there. TF: tf.init_scope.
template <class F>
decltype(auto) init_scope(F&& f) {
  const UnrecordedGuard unrecorded;
  return std::forward<F>(f)();
}

}  // namespace tutti
