#pragma once

#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/data/graph/element.h"

// How the type of a dataset's elements is taken apart into leaves and put together again. An element is
// - a Tensor, or Strings;
// - a tuple, pair or std::array of elements;
// - a std::map from names to elements, in the order of the names;
// - a struct that lists its parts in a line: `auto parts() { return std::tie(image, label); }`;
// - a torch::data::Example<>: a struct with the members data and target.
namespace tutti::data {

namespace structure_internal {

template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept HasParts = requires(T& value) {
  value.parts();
};
template <class T>
concept ExampleLike = requires(T& value) {
  value.data;
  value.target;
};
template <class T>
inline constexpr bool is_leaf = std::is_same_v<T, Tensor> || std::is_same_v<T, Strings>;
template <class T>
inline constexpr bool is_map = false;
template <class V>
inline constexpr bool is_map<std::map<std::string, V>> = true;

// References to the parts of a value, as a tuple.
template <class T>
auto parts_of(T& value) {
  if constexpr (HasParts<T>) {
    return value.parts();
  } else if constexpr (ExampleLike<T>) {
    return std::tie(value.data, value.target);
  } else {
    static_assert(
        TupleLike<T>,
        "an element of a Dataset is a Tensor, Strings, a tuple or pair, a std::map<std::string, …>, or a struct with "
        "`auto parts() { return std::tie(…); }`");
    return std::apply([](auto&... parts) { return std::tie(parts...); }, value);
  }
}

struct Writer {
  std::vector<graph::Leaf> leaves;
  std::vector<std::vector<std::string>> keys;

  template <class T>
  void write(T& value) {
    if constexpr (is_leaf<T>) {
      leaves.emplace_back(std::move(value));
    } else if constexpr (is_map<T>) {
      std::vector<std::string> names;
      for (const auto& entry : value) names.push_back(entry.first);
      keys.push_back(std::move(names));
      for (auto& entry : value) write(entry.second);
    } else {
      std::apply([this](auto&... parts) { (write(parts), ...); }, parts_of(value));
    }
  }
};

struct Reader {
  std::vector<graph::Leaf> leaves;
  graph::Keys keys;
  size_t next_leaf = 0;
  size_t next_keys = 0;

  template <class T>
  void read(T& value) {
    if constexpr (is_leaf<T>) {
      value = std::get<T>(std::move(leaves[next_leaf++]));
    } else if constexpr (is_map<T>) {
      for (const std::string& name : (*keys)[next_keys++]) read(value[name]);
    } else {
      std::apply([this](auto&... parts) { (read(parts), ...); }, parts_of(value));
    }
  }
};

}  // namespace structure_internal

template <class T>
graph::Element to_element(T value) {
  structure_internal::Writer writer;
  writer.write(value);
  graph::Keys keys;
  if (!writer.keys.empty()) keys = std::make_shared<const graph::Keys::element_type>(std::move(writer.keys));
  return graph::Element(std::move(writer.leaves), std::move(keys));
}

// The inverse of to_element<T>; T is default-constructible.
template <class T>
T from_element(graph::Element element) {
  graph::Keys keys = element.keys();
  structure_internal::Reader reader{.leaves = std::move(element).leaves(), .keys = std::move(keys)};
  T value;
  reader.read(value);
  return value;
}

}  // namespace tutti::data
