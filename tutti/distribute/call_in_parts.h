#pragma once

#include <tuple>
#include <type_traits>

namespace tutti {

// References to the parts of a tuple or pair, or to any other value, as a tuple.
template <class T>
auto parts_of(const T& value) {
  if constexpr (requires { std::tuple_size<T>::value; })
    return std::apply([](const auto&... part) { return std::tie(part...); }, value);
  else
    return std::tie(value);
}

// f(arguments…), where f takes them so; else with the parts of tuples and pairs in their place.
template <class F, class... Args>
decltype(auto) call_in_parts(const F& f, const Args&... arguments) {
  if constexpr (std::is_invocable_v<const F&, const Args&...>)
    return f(arguments...);
  else
    return std::apply(f, std::tuple_cat(parts_of(arguments)...));
}

}  // namespace tutti
