#pragma once

#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// How a nested structure is taken apart into its leaves and put together again. A structure is
// - a leaf;
// - a tuple, pair or std::array of structures;
// - a std::vector of structures;
// - a std::map from names to structures, in the order of the names;
// - a plain struct of at most eight structures, as it stands: `struct Sample { Tensor image; Tensor label; };`;
// - any other class that lists its parts in a line: `auto parts() { return std::tie(image, label); }`;
// - a torch::data::Example<>: a class with the members data and target.
namespace tutti::structure {

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
inline constexpr bool is_map = false;
template <class V>
inline constexpr bool is_map<std::map<std::string, V>> = true;
template <class V>
inline constexpr bool is_map<const std::map<std::string, V>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class V>
inline constexpr bool is_vector<std::vector<V>> = true;
template <class V>
inline constexpr bool is_vector<const std::vector<V>> = true;

namespace internal {

struct Anything {
  template <class T>
  operator T() const;
};

// How many members a plain struct has: as many as it takes initializers.
template <class T, class... Members>
consteval int num_members() {
  if constexpr (requires { T{Members{}..., Anything{}}; }) {
    return num_members<T, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

// clang-format off
template <class T>
auto members_of(T& value) {
  constexpr int n = num_members<T>();
  static_assert(n >= 1 && n <= 8, "a plain struct of one to eight members; give others `auto parts() { return std::tie(…); }`");
  if constexpr (n == 1) { auto& [a] = value; return std::tie(a); }
  if constexpr (n == 2) { auto& [a, b] = value; return std::tie(a, b); }
  if constexpr (n == 3) { auto& [a, b, c] = value; return std::tie(a, b, c); }
  if constexpr (n == 4) { auto& [a, b, c, d] = value; return std::tie(a, b, c, d); }
  if constexpr (n == 5) { auto& [a, b, c, d, e] = value; return std::tie(a, b, c, d, e); }
  if constexpr (n == 6) { auto& [a, b, c, d, e, f] = value; return std::tie(a, b, c, d, e, f); }
  if constexpr (n == 7) { auto& [a, b, c, d, e, f, g] = value; return std::tie(a, b, c, d, e, f, g); }
  if constexpr (n == 8) { auto& [a, b, c, d, e, f, g, h] = value; return std::tie(a, b, c, d, e, f, g, h); }
}
// clang-format on

}  // namespace internal

// References to the parts of a value, as a tuple.
template <class T>
auto parts_of(T& value) {
  if constexpr (HasParts<T>) {
    return value.parts();
  } else if constexpr (ExampleLike<T>) {
    return std::tie(value.data, value.target);
  } else if constexpr (TupleLike<T>) {
    return std::apply([](auto&... parts) { return std::tie(parts...); }, value);
  } else {
    static_assert(
        std::is_aggregate_v<T>,
        "a structure is made of Tensors, tuples, pairs, std::vector, std::map<std::string, …>, plain structs, "
        "and classes with `auto parts() { return std::tie(…); }`");
    return internal::members_of(value);
  }
}

// Calls visitor.leaf for each leaf, depth first, and visitor.map and visitor.vector before going into one. Leaves are
// what visitor.leaf takes.
template <class T, class Visitor>
void visit(T& value, Visitor& visitor) {
  if constexpr (requires { visitor.leaf(value); }) {
    visitor.leaf(value);
  } else if constexpr (is_map<T>) {
    visitor.map(value);
    for (auto& entry : value) structure::visit(entry.second, visitor);
  } else if constexpr (is_vector<T>) {
    static_assert(
        requires { visitor.vector(value); }, "a std::vector is not taken apart here; use a std::array");
    visitor.vector(value);
    for (auto& element : value) structure::visit(element, visitor);
  } else {
    std::apply([&](auto&... parts) { (structure::visit(parts, visitor), ...); }, parts_of(value));
  }
}

// The leaves of a structure, depth first, and what its type leaves open: the names in its maps and the lengths of its
// vectors, as text. Two values of one type have the same structure if their forms are equal.
template <class Leaf>
struct Flat {
  std::vector<Leaf> leaves = {};
  std::string form = {};
};

namespace internal {

template <class Leaf>
struct Flattener {
  Flat<Leaf> flat;

  void leaf(Leaf& value) { flat.leaves.push_back(std::move(value)); }
  template <class V>
  void map(const std::map<std::string, V>& value) {
    std::ostringstream names;
    for (const auto& entry : value) names << ' ' << std::quoted(entry.first);
    flat.form += '{' + names.str() + " }";
  }
  template <class V>
  void vector(const std::vector<V>& value) {
    flat.form += '[' + std::to_string(value.size()) + ']';
  }
};

template <class Leaf>
struct Replacer {
  std::vector<Leaf> leaves;
  size_t next = 0;

  void leaf(Leaf& value) { value = std::move(leaves[next++]); }
  template <class V>
  void map(const std::map<std::string, V>&) {}
  template <class V>
  void vector(const std::vector<V>&) {}
};

}  // namespace internal

template <class Leaf, class T>
Flat<Leaf> flatten(T value) {
  internal::Flattener<Leaf> flattener;
  structure::visit(value, flattener);
  return std::move(flattener.flat);
}

// `value` with other leaves, as many as it has.
template <class Leaf, class T>
T with_leaves(T value, std::vector<Leaf> leaves) {
  internal::Replacer<Leaf> replacer{std::move(leaves)};
  structure::visit(value, replacer);
  return value;
}

}  // namespace tutti::structure
