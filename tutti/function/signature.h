#pragma once

#include <any>
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

// A C++ value among a function's arguments, which counts by ==: a number, a flag, a name, a pointer.
class ArgumentValue {
 public:
  template <class T>
  explicit ArgumentValue(T value) : value_(std::make_shared<Held<T>>(std::move(value))) {}

  bool operator==(const ArgumentValue& other) const { return value_->equals(*other.value_); }
  std::string to_string() const { return value_->to_string(); }

 private:
  struct Any {
    virtual ~Any() = default;
    virtual bool equals(const Any& other) const = 0;
    virtual std::string to_string() const = 0;
  };
  template <class T>
  struct Held final : Any {
    explicit Held(T held) : value(std::move(held)) {}
    bool equals(const Any& other) const override {
      const auto* same_type = dynamic_cast<const Held*>(&other);
      return same_type && same_type->value == value;
    }
    std::string to_string() const override {
      if constexpr (std::is_arithmetic_v<T>) return std::to_string(value);
      if constexpr (std::is_same_v<T, std::string>) return '"' + value + '"';
      return "…";
    }
    T value;
  };

  std::shared_ptr<const Any> value_;
};

template <class T>
inline constexpr bool is_shared_pointer = false;
template <class T>
inline constexpr bool is_shared_pointer<std::shared_ptr<T>> = true;

template <class T>
concept CountsByValue = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> ||
    std::is_pointer_v<T> || is_shared_pointer<T>;

// The arguments of one call, taken apart.
struct FlatArguments {
  std::vector<Tensor> tensors;
  std::vector<ArgumentValue> values;
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
  std::vector<Tensor> tensors = {};

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
  const std::vector<Tensor>& tensors;
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
    bool operator==(const TensorPart&) const = default;
  };
  std::type_index types;
  std::string form;
  std::vector<TensorPart> tensors;  // of a mesh tensor one for each component
  std::vector<LaidOut> layouts;
  std::vector<ArgumentValue> values;
  int64_t depends_on;
  int modes;
  int replica;  // in whose function the call is; -1: in none's
  const MeshShape* mesh;
};

}  // namespace tutti
