#pragma once

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "tutti/function/concrete_function.h"
#include "tutti/function/flat_arguments.h"
#include "tutti/function/function_options.h"
#include "tutti/function/traces.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/outer_recorder.h"

namespace tutti {

// A callable that records what it does, and replays it: forward pass, backward pass and optimizer become one list of
// calls, which runs without C++ around it, without views and with planned memory, and gives eager's bits.
//
// The first call for arguments of some shapes runs as it is and is recorded; the next one too, and the two are
// compared; from then on calls are replayed. What C++ does beside tensor operations happens while recording only.
// Arguments are tensors, numbers, names, pointers, PerReplica, and structures of them; a number of another value means
// another recording. An argument may be an iterator, too, which the function gets itself and takes elements of by
// next(). Results are tensors, PerReplica and structures of them.
// A Strategy's run in a function is a part of the recording, and its replicas are replayed one after the other on the
// calling thread. See docs/function.md. TF: tf.function.
//
// Copies share their recordings. Threads: any number may call at once.
template <class F>
class Function {
 public:
  Function(F f, FunctionOptions options) : f_(std::move(f)), traces_(std::make_shared<Traces>(std::move(options))) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Returned = std::invoke_result_t<const F&, Passed<Args>...>;
    if (functions_run_eagerly() || CallRecorder::current() || OuterRecorder::current())
      return static_cast<std::decay_t<Returned>>(f_(static_cast<Passed<Args>>(args)...));
    if constexpr (std::is_void_v<Returned>)
      call<std::tuple<>>([&](auto&... parts) { return f_(parts...), std::tuple<>(); }, args...);
    else
      return call<std::decay_t<Returned>>(f_, args...);
  }

  // The recording that a call with such arguments takes, the first one for whichever elements of iterators. Throws:
  // not_found where there is none yet.
  template <class... Args>
  ConcreteFunction get_concrete_function(Args&&... args) const {
    return ConcreteFunction(traces_->find_program(types_of<Args...>(), flat(args...)));
  }
  // How many times it was recorded. TF: experimental_get_tracing_count.
  int64_t tracing_count() const { return traces_->tracing_count(); }
  // A line for each kind of arguments that it was recorded for.
  std::string pretty_printed_concrete_signatures() const { return traces_->signatures(); }

 private:
  // How the function gets an argument: an iterator as it is.
  template <class Arg>
  using Passed = std::conditional_t<ElementIterator<std::remove_reference_t<Arg>>, std::remove_reference_t<Arg>&,
                                    const std::remove_cvref_t<Arg>&>;
  // What an argument is while the function runs, with other tensors.
  template <class Arg>
  using Held = std::conditional_t<ElementIterator<std::remove_reference_t<Arg>>, std::remove_reference_t<Arg>&,
                                  std::decay_t<Arg>>;

  template <class... Args>
  static std::type_index types_of() {
    return typeid(std::tuple<std::remove_cvref_t<Args>...>);
  }

  template <class Result, class G, class... Args>
  Result call(const G& g, Args&... args) const {
    std::optional<Result> recorded;
    const auto body = [&](at::ArrayRef<Tensor> tensors) {
      auto replaced = std::tuple<Held<Args>...>(args...);
      ReplaceTensors replace{tensors};
      std::apply([&](auto&... parts) { (structure::visit(parts, replace), ...); }, replaced);
      recorded.emplace(std::apply(g, std::as_const(replaced)));
      TakeTensors taken;
      structure::visit(*recorded, taken);
      return std::move(taken.tensors);
    };
    const auto form = [&] { return std::shared_ptr<void>(std::make_shared<Result>(*recorded)); };
    auto outcome = traces_->call(types_of<Args...>(), flat(args...), body, form);
    Result result = *std::static_pointer_cast<Result>(outcome.form);
    ReplaceTensors replace{outcome.tensors};
    structure::visit(result, replace);
    return result;
  }

  template <class... Args>
  static FlatArguments flat(Args&... args) {
    FlatArguments arguments;
    (structure::visit(args, arguments), ...);
    return arguments;
  }

  F f_;
  std::shared_ptr<Traces> traces_;
};

template <class F>
Function<F> function(F f, FunctionOptions options = {}) {
  return Function<F>(std::move(f), std::move(options));
}

}  // namespace tutti
