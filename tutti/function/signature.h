#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "tutti/core/per_replica.h"
#include "tutti/core/structure.h"
#include "tutti/function/geometry.h"
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

// The arguments of one call, taken apart.
struct FlatArguments {
  Tensors tensors;
  ArgumentValues values;
  std::string form;  // the names in maps, the lengths of vectors

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
  template <class V>
  void map(const std::map<std::string, V>&) {}
  template <class V>
  void vector(const std::vector<V>&) {}
};

// What surrounds a call and changes what LibTorch does in it, as one number.
int modes_now();

// What decides which recording a call takes: two calls with equal signatures run one program.
struct Signature {
  // Of the arguments, and of what surrounds the call: gradient and inference mode, autocast, threads' determinism.
  static Signature of(std::type_index types, const FlatArguments& arguments, const TakenApart& tensors,
                      int64_t depends_on);

  bool operator==(const Signature&) const = default;
  // "(float32 [64, 784], int64 [64], 0.1)".
  std::string to_string() const;

  struct TensorPart {
    std::optional<Geometry> geometry;  // offset 0; none: an undefined tensor
    bool requires_grad = false;
    bool is_leaf = true;
    bool operator==(const TensorPart&) const = default;
  };
  std::type_index types;
  std::string form;
  c10::SmallVector<TensorPart, 8> tensors;  // of a mesh tensor one for each component
  LaidOutValues layouts;
  ArgumentValues values;
  int64_t depends_on;
  int modes;
  int replica;  // in whose function the call is; -1: in none's
  const MeshShape* mesh;
};

}  // namespace tutti
