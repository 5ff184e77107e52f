#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/function_ref.h"
#include "tutti/core/structure.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti {

struct WhileLoopOptions {
  std::optional<int64_t> maximum_iterations = {};  // the loop ends after them, whatever its condition says
};

namespace function_internal {

using FlatTensors = structure::Flat<Tensor>;
using Part = FunctionRef<FlatTensors()>;  // of a function: a branch
using LoopCondition = FunctionRef<Tensor(const std::vector<Tensor>& state)>;
using LoopBody = FunctionRef<FlatTensors(const std::vector<Tensor>& state)>;

FlatTensors cond(const Tensor& predicate, Part if_true, Part if_false);
std::vector<Tensor> while_loop(LoopCondition condition, LoopBody body, FlatTensors state,
                               const WhileLoopOptions& options);

// f(state), or f(parts of the state...) of a tuple.
template <class F, class State>
decltype(auto) call_with_state(F& f, const State& state) {
  if constexpr (structure::TupleLike<State>)
    return std::apply(f, state);
  else
    return f(state);
}

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

// Calls `body` as long as `condition` says, in a recorded function too: there both are recorded, and each replay goes
// through them as often as it has to. Both take the state, a Tensor or a structure of tensors; of a tuple its parts are
// arguments. The condition returns a bool tensor of one element, the body the next state, of the same type, shapes and
// dtypes. What they capture is as in cond(). They may write to the state in place; it is theirs, and what is returned
// are new, contiguous tensors.
//
//   const auto [steps, x] = while_loop([&](const Tensor& i, const Tensor& x) { return x.norm() > 0.1; },
//                                      [&](const Tensor& i, const Tensor& x) { return std::tuple(i + 1, x * 0.9); },
//                                      std::tuple(torch::zeros({}, torch::kLong), start));
//
// While it is recorded each iteration must be the same calls as the first; without any, the body runs once and is
// undone. Gradients go through it outside of a recording alone, and the errors are those of cond().
// TF: tf.while_loop.
template <class Condition, class Body, class State>
State while_loop(Condition&& condition, Body&& body, State state, const WhileLoopOptions& options = {}) {
  using function_internal::call_with_state;
  static_assert(std::is_same_v<std::decay_t<decltype(call_with_state(body, state))>, State>,
                "while_loop: the body returns what it takes, a structure of the same type");
  const auto goes_on = [&](const std::vector<Tensor>& leaves) -> Tensor {
    return call_with_state(condition, structure::with_leaves(state, leaves));
  };
  const auto next = [&](const std::vector<Tensor>& leaves) {
    return structure::flatten<Tensor>(call_with_state(body, structure::with_leaves(state, leaves)));
  };
  auto leaves = function_internal::while_loop(goes_on, next, structure::flatten<Tensor>(state), options);
  return structure::with_leaves(std::move(state), std::move(leaves));
}

}  // namespace tutti
