#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/per_replica.h"
#include "tutti/core/structure.h"
#include "tutti/function/laid_out.h"

namespace tutti {

// A C++ value among a function's arguments, which counts by ==: a number, a flag, a name, a pointer. Small ones are
// held without memory of their own.
class ArgumentValue {
 public:
  template <class T>
  explicit ArgumentValue(T value) : type_(&kType<T>) {
    if constexpr (is_small<T>)
      std::memcpy(small_.data(), &value, sizeof value);
    else
      large_ = std::make_shared<const T>(std::move(value));
  }

  bool operator==(const ArgumentValue& other) const { return type_ == other.type_ && type_->equal(*this, other); }
  std::string to_string() const { return type_->to_string(*this); }

 private:
  struct Type {
    bool (*equal)(const ArgumentValue& a, const ArgumentValue& b);
    std::string (*to_string)(const ArgumentValue& value);
  };
  using Small = std::array<std::byte, 16>;
  template <class T>
  static constexpr bool is_small = std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(Small);

  template <class T>
  T get() const {
    if constexpr (is_small<T>) {
      T value;
      std::memcpy(&value, small_.data(), sizeof value);
      return value;
    } else {
      return *static_cast<const T*>(large_.get());
    }
  }
  template <class T>
  static std::string text_of(const ArgumentValue& held) {
    if constexpr (std::is_arithmetic_v<T>) return std::to_string(held.get<T>());
    if constexpr (std::is_same_v<T, std::string>) return '"' + held.get<T>() + '"';
    return "…";
  }
  template <class T>
  static bool are_equal(const ArgumentValue& a, const ArgumentValue& b) {
    return a.get<T>() == b.get<T>();
  }
  template <class T>
  static constexpr Type kType{are_equal<T>, text_of<T>};

  const Type* type_;
  Small small_{};
  std::shared_ptr<const void> large_;
};

template <class T>
inline constexpr bool is_shared_pointer = false;
template <class T>
inline constexpr bool is_shared_pointer<std::shared_ptr<T>> = true;

template <class T>
concept CountsByValue = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> ||
    std::is_pointer_v<T> || is_shared_pointer<T>;

using ArgumentValues = c10::SmallVector<ArgumentValue, 8>;

// What next() takes elements of: an iterator over a dataset, or over what a strategy distributes.
template <class T>
concept ElementIterator = requires(T& iterator) {
  typename T::value_type;
  *iterator;
  ++iterator;
  { iterator == std::default_sentinel } -> std::convertible_to<bool>;
};

struct TakenElement;

// An iterator of some type.
struct ElementSource {
  void* iterator;
  std::optional<TakenElement> (*take)(void* iterator);  // the next element; none at the end
};

template <ElementIterator Iterator>
ElementSource source_of(Iterator& iterator);

// The arguments of one call, taken apart.
struct FlatArguments {
  Tensors tensors;
  ArgumentValues values;
  c10::SmallVector<ElementSource, 1> iterators;
  std::string form;  // the names in maps, the lengths of vectors, which iterators are one

  template <ElementIterator T>
  void leaf(T& iterator) {
    iterators.push_back(source_of(iterator));
    const auto is_it = [&](const ElementSource& source) { return source.iterator == &iterator; };
    form += '@' + std::to_string(std::ranges::find_if(iterators, is_it) - iterators.begin());
  }
  void leaf(const Tensor& tensor) { tensors.push_back(tensor); }
  template <class T>
  void leaf(const PerReplica<T>& values) {
    form += '<' + std::to_string(values.size()) + '>';
    for (const T& value : values) structure::visit(value, *this);
  }
  template <CountsByValue T>
  void leaf(const T& value) {
    values.emplace_back(value);
  }
  template <class V>
  void map(const std::map<std::string, V>& value) {
    form += '{';
    for (const auto& entry : value) form += std::to_string(entry.first.size()) + ':' + entry.first;
    form += '}';
  }
  template <class V>
  void vector(const std::vector<V>& value) {
    form += '[' + std::to_string(value.size()) + ']';
  }
};

// An element, and its parts.
struct TakenElement {
  std::shared_ptr<void> value;  // of the iterator's value_type
  FlatArguments parts = {};
};

template <ElementIterator Iterator>
ElementSource source_of(Iterator& iterator) {
  return {&iterator, [](void* from) -> std::optional<TakenElement> {
            Iterator& iterator = *static_cast<Iterator*>(from);
            std::optional<typename Iterator::value_type> value;
            if constexpr (requires { iterator.next_as_optional(); }) {
              value = iterator.next_as_optional();
            } else if (!(iterator == std::default_sentinel)) {
              value = *iterator;
              ++iterator;
            }
            if (!value) return {};
            const auto held = std::make_shared<typename Iterator::value_type>(*std::move(value));
            TakenElement element{held};
            structure::visit(*held, element.parts);
            return element;
          }};
}

// Takes the tensors out of a result, and leaves its structure.
struct TakeTensors {
  Tensors tensors = {};

  void leaf(Tensor& tensor) { tensors.push_back(std::exchange(tensor, {})); }
  template <class T>
  void leaf(PerReplica<T>& values) {
    for (size_t r = 0; r < values.size(); ++r) structure::visit(values[r], *this);
  }
  template <class V>
  void map(const std::map<std::string, V>&) {}
  template <class V>
  void vector(const std::vector<V>&) {}
};

// Puts other tensors into the places of an argument's or a result's.
struct ReplaceTensors {
  at::ArrayRef<Tensor> tensors;
  size_t next = 0;

  void leaf(Tensor& tensor) { tensor = tensors[next++]; }
  template <class T>
  void leaf(PerReplica<T>& values) {
    for (size_t r = 0; r < values.size(); ++r) structure::visit(values[r], *this);
  }
  template <CountsByValue T>
  void leaf(T&) {}
  template <ElementIterator T>
  void leaf(T&) {}
  template <class V>
  void map(const std::map<std::string, V>&) {}
  template <class V>
  void vector(const std::vector<V>&) {}
};

}  // namespace tutti
