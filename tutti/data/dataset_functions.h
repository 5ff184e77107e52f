#pragma once

#include <concepts>
#include <functional>
#include <tuple>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/dataset.h"

// How the functions of a Dataset<T>'s user become functions of untyped elements.
namespace tutti::data {
namespace dataset_internal {

template <class F, class T, class... Leading>
inline constexpr bool takes_parts = false;
template <class F, template <class...> class Tuple, class... Parts, class... Leading>
inline constexpr bool takes_parts<F, Tuple<Parts...>, Leading...> =
    structure::TupleLike<Tuple<Parts...>>&& std::invocable<const F&, Leading..., Parts...>;

// f(leading..., element), or f(leading..., parts of the element...).
template <class F, class T, class... Leading>
decltype(auto) call_with_parts(const F& f, T element, Leading... leading) {
  if constexpr (takes_parts<F, T, Leading...>) {
    return std::apply(f, std::tuple_cat(std::tuple<Leading...>(std::move(leading)...), std::move(element)));
  } else {
    static_assert(std::invocable<const F&, Leading..., T>,
                  "a function of a dataset takes the parts of a tuple as arguments, any other element as one, and is "
                  "not `mutable`");
    return f(std::move(leading)..., std::move(element));
  }
}

template <class F, class T, class... Leading>
using CallResult =
    std::decay_t<decltype(call_with_parts(std::declval<const F&>(), std::declval<T>(), std::declval<Leading>()...))>;

template <class T, class F>
graph::FlatMapFunction to_dataset(F f) {
  return [f = std::move(f)](graph::Element element) {
    return call_with_parts(f, from_element<T>(std::move(element))).node();
  };
}

// But for the size of windows.
template <class T, class Reduce>
graph::GroupFunctions group_functions(graph::NumberFunction key, Reduce reduce) {
  graph::GroupFunctions functions;
  functions.key = std::move(key);
  functions.reduce = [reduce = std::move(reduce)](int64_t key, graph::NodePtr window) {
    return reduce(key, Dataset<T>(std::move(window))).node();
  };
  return functions;
}

}  // namespace dataset_internal

template <class T>
template <class F>
auto Dataset<T>::map(F f, const MapOptions& options) const {
  using Result = dataset_internal::CallResult<F, T>;
  const auto function = [f = std::move(f)](graph::Element element) {
    return graph::with_values(
        to_element<Result>(dataset_internal::call_with_parts(f, from_element<T>(std::move(element)))));
  };
  return Dataset<Result>(options.num_parallel_calls == 0 ? graph::map(node_, function, options.seed)
                                                         : graph::parallel_map(node_, function, options));
}

template <class T>
template <class F>
auto Dataset<T>::flat_map(F f) const {
  using Result = dataset_internal::CallResult<F, T>;
  return Dataset<typename Result::value_type>(
      graph::interleave(node_, dataset_internal::to_dataset<T>(std::move(f)), {.cycle_length = 1}, "flat_map"));
}

template <class T>
template <class F>
auto Dataset<T>::interleave(F f, const InterleaveOptions& options) const {
  using Result = dataset_internal::CallResult<F, T>;
  auto function = dataset_internal::to_dataset<T>(std::move(f));
  return Dataset<typename Result::value_type>(options.num_parallel_calls == 0
                                                  ? graph::interleave(node_, std::move(function), options)
                                                  : graph::parallel_interleave(node_, std::move(function), options));
}

template <class T>
template <class S, class F>
auto Dataset<T>::scan(S initial, F f) const {
  using Result = dataset_internal::CallResult<F, T, S>;
  using Output = std::tuple_element_t<1, Result>;
  static_assert(std::is_same_v<std::tuple_element_t<0, Result>, S>,
                "scan(initial, f): f returns the pair of a state of the initial one's type and the output");
  const auto function = [f = std::move(f)](graph::Element state, graph::Element element) {
    auto [next, output] =
        dataset_internal::call_with_parts(f, from_element<T>(std::move(element)), from_element<S>(std::move(state)));
    return std::pair(to_element<S>(std::move(next)), graph::with_values(to_element<Output>(std::move(output))));
  };
  return Dataset<Output>(graph::scan(node_, to_element<S>(std::move(initial)), function));
}

template <class T>
template <class S, class F>
S Dataset<T>::reduce(S initial, F f) const {
  const auto step = [&](graph::Element element) {
    initial = dataset_internal::call_with_parts(f, from_element<T>(std::move(element)), std::move(initial));
  };
  graph::for_each(node_, step, "reduce");
  return initial;
}

template <class T>
template <class Key, class Reduce>
auto Dataset<T>::group_by_window(Key key, Reduce reduce, int64_t window_size) const {
  if (window_size < 1)
    throw Error(ErrorCode::invalid_argument,
                str("group_by_window: window_size ", window_size, "; it must be at least 1"));
  using Result = std::invoke_result_t<const Reduce&, int64_t, Dataset<T>>;
  auto functions = dataset_internal::group_functions<T>(number<Key>(std::move(key)), std::move(reduce));
  functions.window_size = [window_size](int64_t) { return window_size; };
  functions.text = str(functions.op, '(', window_size, ')');
  return Dataset<typename Result::value_type>(graph::group_by_window(node_, std::move(functions)));
}

template <class T>
template <class Key, class Reduce, std::invocable<int64_t> WindowSize>
auto Dataset<T>::group_by_window(Key key, Reduce reduce, WindowSize window_size) const {
  using Result = std::invoke_result_t<const Reduce&, int64_t, Dataset<T>>;
  auto functions = dataset_internal::group_functions<T>(number<Key>(std::move(key)), std::move(reduce));
  functions.window_size = std::move(window_size);
  return Dataset<typename Result::value_type>(graph::group_by_window(node_, std::move(functions)));
}

template <class T>
template <class F>
graph::Predicate Dataset<T>::predicate(F f) {
  return [f = std::move(f)](const graph::Element& element) -> bool {
    return dataset_internal::call_with_parts(f, from_element<T>(element));
  };
}

template <class T>
template <class F>
graph::NumberFunction Dataset<T>::number(F f) {
  static_assert(std::integral<dataset_internal::CallResult<F, T>>, "the function returns an integer");
  return [f = std::move(f)](const graph::Element& element) -> int64_t {
    return dataset_internal::call_with_parts(f, from_element<T>(element));
  };
}

}  // namespace tutti::data
