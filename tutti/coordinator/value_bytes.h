#pragma once

#include <concepts>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/coordinator/travel.h"
#include "tutti/core/bytes.h"

// What travels to another process, as bytes. Nothing in them is believed.
namespace tutti::coordinator {

namespace internal {

template <class T>
concept Leaf = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::same_as<T, Tensor> || std::same_as<T, Strings> ||
    std::same_as<T, std::string>;

template <class T>
consteval bool can_travel();

template <class Parts>
inline constexpr bool all_can_travel = false;
template <class... Parts>
inline constexpr bool all_can_travel<std::tuple<Parts&...>> = (can_travel<std::remove_cv_t<Parts>>() && ...);

// Whether parts_of() takes one apart.
template <class T>
consteval bool has_parts() {
  if constexpr (structure::HasParts<T> || structure::ExampleLike<T> || structure::TupleLike<T>)
    return true;
  else if constexpr (std::is_aggregate_v<T>)
    return structure::internal::num_members<T>() >= 1 && structure::internal::num_members<T>() <= 8;
  else
    return false;
}
template <class T>
concept MadeOfParts = std::is_default_constructible_v<T> && has_parts<T>();

template <class T>
consteval bool can_travel() {
  if constexpr (Leaf<T>) {
    return true;
  } else if constexpr (structure::is_map<T>) {
    return can_travel<typename T::mapped_type>();
  } else if constexpr (structure::is_vector<T>) {
    return can_travel<typename T::value_type>() && !std::same_as<T, std::vector<bool>>;
  } else if constexpr (MadeOfParts<T>) {
    return all_can_travel<decltype(structure::parts_of(std::declval<T&>()))>;
  } else {
    return false;
  }
}

}  // namespace internal

// Tensors, Strings, numbers, text, and structures (core/structure.h) of them that can be made before they are filled.
template <class T>
inline constexpr bool can_travel = internal::can_travel<T>();
template <>
inline constexpr bool can_travel<void> = true;

// Dense tensors. Throws: unimplemented for others.
void write_leaf(ByteWriter& writer, const Tensor& value);
void write_leaf(ByteWriter& writer, const Strings& value);
void read_leaf(ByteReader& reader, Tensor& value);
void read_leaf(ByteReader& reader, Strings& value);

struct ValueWriter {
  ByteWriter& writer;

  void leaf(Tensor& value) { write_leaf(writer, value); }
  void leaf(Strings& value) { write_leaf(writer, value); }
  void leaf(std::string& value) { writer.text(value); }
  template <class Number>
  requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
  void leaf(Number& value) {
    if constexpr (std::is_floating_point_v<Number>) {
      const auto number = static_cast<double>(value);
      writer.raw(&number, sizeof number);
    } else {
      writer.number(static_cast<int64_t>(value));
    }
  }
  template <class V>
  void map(std::map<std::string, V>& value) {
    writer.number(static_cast<int64_t>(value.size()));
    for (const auto& entry : value) writer.text(entry.first);
  }
  template <class V>
  void vector(std::vector<V>& value) {
    writer.number(static_cast<int64_t>(value.size()));
  }
};

struct ValueReader {
  ByteReader& reader;

  void leaf(Tensor& value) { read_leaf(reader, value); }
  void leaf(Strings& value) { read_leaf(reader, value); }
  void leaf(std::string& value) { value = reader.text(); }
  template <class Number>
  requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
  void leaf(Number& value) {
    if constexpr (std::is_floating_point_v<Number>) {
      double number;
      std::memcpy(&number, reader.raw(sizeof number), sizeof number);
      value = static_cast<Number>(number);
    } else {
      const int64_t number = reader.number();
      value = static_cast<Number>(number);
      if (static_cast<int64_t>(value) != number) reader.damaged("a number that its type does not have");
    }
  }
  template <class V>
  void map(std::map<std::string, V>& value) {
    value.clear();
    for (int64_t left = reader.count(2 * sizeof(int64_t)); left > 0; --left) value[reader.text()];
  }
  template <class V>
  void vector(std::vector<V>& value) {
    value.resize(static_cast<size_t>(reader.count(sizeof(int64_t))));
  }
};

template <class T>
void write_value(ByteWriter& writer, T value) {
  ValueWriter visitor{writer};
  structure::visit(value, visitor);
}

template <class T>
T read_value(ByteReader& reader) {
  T value{};
  ValueReader visitor{reader};
  structure::visit(value, visitor);
  return value;
}

}  // namespace tutti::coordinator
