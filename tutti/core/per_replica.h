#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

// One value per replica, in replica order. A plain container: shapes may differ between replicas and T may be anything.
// Values that are tuples or pairs are taken apart by a structured binding: auto [loss, accuracy] = strategy.run(step)
// gives two PerReplicas.
// TF: tf.distribute.DistributedValues (PerReplica).
template <class T>
class PerReplica {
 public:
  using value_type = T;

  explicit PerReplica(std::vector<T> values) : values_(std::move(values)) {
    if (values_.empty())
      throw Error(ErrorCode::invalid_argument, "PerReplica: no values; there must be one for each replica");
  }
  PerReplica(std::initializer_list<T> values) : PerReplica(std::vector<T>(values)) {}

  size_t size() const { return values_.size(); }
  decltype(auto) operator[](size_t replica_id) const { return values_[replica_id]; }  // T&, but for bool
  decltype(auto) operator[](size_t replica_id) { return values_[replica_id]; }
  const std::vector<T>& values() const& { return values_; }
  std::vector<T>&& values() && { return std::move(values_); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

  // What f gives for each value; f may be a pointer to a member: results.transform(&Output::loss).
  template <class F>
  auto transform(const F& f) const {
    using Result = std::decay_t<std::invoke_result_t<const F&, const T&>>;
    std::vector<Result> results;
    results.reserve(size());
    for (const auto& value : values_) results.push_back(std::invoke(f, value));
    return PerReplica<Result>(std::move(results));
  }

 private:
  std::vector<T> values_;
};

template <class T>
inline constexpr bool is_per_replica = false;
template <class T>
inline constexpr bool is_per_replica<PerReplica<T>> = true;

// The part I of each replica's tuple or pair.
template <size_t I, class T>
requires requires { std::tuple_size<T>::value; }
auto get(const PerReplica<T>& values) {
  return values.transform([](const T& value) { return std::get<I>(value); });
}

}  // namespace tutti

template <class T>
requires requires { std::tuple_size<T>::value; }
struct std::tuple_size<tutti::PerReplica<T>> : std::tuple_size<T> {};
template <size_t I, class T>
struct std::tuple_element<I, tutti::PerReplica<T>> {
  using type = tutti::PerReplica<std::tuple_element_t<I, T>>;
};
