#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <type_traits>
#include <utility>

#include "tutti/core/function_ref.h"
#include "tutti/core/structure.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti {
namespace function_internal {

using FlatTensors = structure::Flat<Tensor>;
using Part = FunctionRef<FlatTensors()>;  // of a function: a branch

FlatTensors cond(const Tensor& predicate, Part if_true, Part if_false);

}  // namespace function_internal

// Calls one of two functions, as the predicate says, in a recorded function too: there both are recorded, and each
// replay reads the predicate anew and runs one of them. The predicate is a bool tensor of one element. The functions
// take nothing, may use and write what they capture, and return tensors of the same shapes and dtypes: a Tensor, a
// structure of tensors, or nothing. What is returned are new, contiguous tensors, also where a branch returns one from
// outside.
//
//   const Tensor shown = cond(loss.isfinite(), [&] { optimizer.apply_gradients(…); return loss.detach(); },
//                             [&] { return previous; });
//
// While it is recorded both run: first the one that is not taken, whose writes, random numbers and host steps
// (host_call, print, optimizers of Keras) are undone or left out, and then the other one. Outside of a recording it is
// an `if`, through which gradients go; no gradient goes through a recorded one: compute it inside, or use torch::where.
// Throws: invalid_argument for another predicate, for results that differ in structure, shape or dtype, and in a
// recording for those that need a gradient; failed_precondition in a recording where a branch leaves another grad()
// than it found, or where a tensor of a branch is used outside of it; unimplemented for `run` in a branch. TF: tf.cond.
template <class True, class False>
auto cond(const Tensor& predicate, True&& if_true, False&& if_false) {
  using Result = std::decay_t<std::invoke_result_t<True&>>;
  static_assert(std::is_same_v<Result, std::decay_t<std::invoke_result_t<False&>>>,
                "cond: both functions return the same type");
  if constexpr (std::is_void_v<Result>) {
    const auto part = [](auto& branch) { return [&branch] { return branch(), function_internal::FlatTensors(); }; };
    function_internal::cond(predicate, part(if_true), part(if_false));
  } else {
    std::optional<Result> result;  // of the one that was called last, which is the one that is taken
    const auto part = [&result](auto& branch) {
      return [&] {
        result.emplace(branch());
        return structure::flatten<Tensor>(*result);
      };
    };
    auto flat = function_internal::cond(predicate, part(if_true), part(if_false));
    return structure::with_leaves(std::move(*result), std::move(flat.leaves));
  }
}

}  // namespace tutti
