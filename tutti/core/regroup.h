#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/per_replica.h"
#include "tutti/core/str.h"

// Between a PerReplica of structures (what run returns) and a structure of PerReplicas. A structure is a tuple, pair,
// vector or map of others. A PerReplica of tuples or pairs is taken apart by a structured binding: see per_replica.h.
namespace tutti {

// Whether a PerReplica is in a structure of type T.
template <class T>
inline constexpr bool holds_per_replica = is_per_replica<T>;
template <class... Ts>
inline constexpr bool holds_per_replica<std::tuple<Ts...>> = (holds_per_replica<Ts> || ...);
template <class A, class B>
inline constexpr bool holds_per_replica<std::pair<A, B>> = holds_per_replica<A> || holds_per_replica<B>;
template <class T>
inline constexpr bool holds_per_replica<std::vector<T>> = holds_per_replica<T>;
template <class K, class V>
inline constexpr bool holds_per_replica<std::map<K, V>> = holds_per_replica<V>;

// The structure with one replica's value in the place of each PerReplica; other values stay as they are.
template <class T>
requires(!holds_per_replica<T>) const T& at_replica(const T& value, size_t) { return value; }
template <class T>
decltype(auto) at_replica(const PerReplica<T>& value, size_t replica) {
  return value[replica];
}
template <class A, class B>
requires holds_per_replica<std::pair<A, B>>
auto at_replica(const std::pair<A, B>& value, size_t replica) {
  return std::pair(at_replica(value.first, replica), at_replica(value.second, replica));
}
template <class... Ts>
requires holds_per_replica<std::tuple<Ts...>>
auto at_replica(const std::tuple<Ts...>& value, size_t replica) {
  return std::apply([&](const Ts&... part) { return std::make_tuple(at_replica(part, replica)...); }, value);
}
template <class T>
requires holds_per_replica<T>
auto at_replica(const std::vector<T>& value, size_t replica) {
  std::vector<std::decay_t<decltype(at_replica(value[0], replica))>> result;
  for (const T& element : value) result.push_back(at_replica(element, replica));
  return result;
}
template <class K, class V>
requires holds_per_replica<V>
auto at_replica(const std::map<K, V>& value, size_t replica) {
  std::map<K, std::decay_t<decltype(at_replica(value.begin()->second, replica))>> result;
  for (const auto& [key, element] : value) result.emplace(key, at_replica(element, replica));
  return result;
}

// Throws invalid_argument unless every PerReplica in the structure has `num_replicas` values.
template <class T>
void check_replicas(const char* call, const T& value, size_t num_replicas) {
  if constexpr (is_per_replica<T>) {
    if (value.size() != num_replicas)
      throw Error(ErrorCode::invalid_argument, str(call, ": an argument has values for ", value.size(),
                                                   " replicas; the strategy has ", num_replicas));
  } else if constexpr (!holds_per_replica<T>) {
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](const auto&... part) { (check_replicas(call, part, num_replicas), ...); }, value);
  } else {
    for (const auto& element : value) check_replicas(call, element, num_replicas);
  }
}

// The vector or map of PerReplicas, from a PerReplica of vectors or maps. Throws: invalid_argument where the replicas
// differ in length or keys.
template <class T>
std::vector<PerReplica<T>> regroup(const PerReplica<std::vector<T>>& values) {
  std::vector<PerReplica<T>> result;
  for (size_t r = 1; r < values.size(); ++r)
    if (values[r].size() != values[0].size())
      throw Error(ErrorCode::invalid_argument,
                  str("regroup: replica ", r, " has ", values[r].size(), " elements, replica 0 has ", values[0].size(),
                      "; every replica must return one structure"));
  for (size_t i = 0; i < values[0].size(); ++i)
    result.push_back(values.transform([&](const std::vector<T>& own) { return own[i]; }));
  return result;
}
template <class K, class V>
std::map<K, PerReplica<V>> regroup(const PerReplica<std::map<K, V>>& values) {
  const auto keys = [](const std::map<K, V>& own) {
    std::vector<K> found;
    for (const auto& [key, value] : own) found.push_back(key);
    return found;
  };
  for (size_t r = 1; r < values.size(); ++r)
    if (keys(values[r]) != keys(values[0]))
      throw Error(ErrorCode::invalid_argument,
                  str("regroup: replica ", r, " has the keys ", str_list(keys(values[r])), ", replica 0 has ",
                      str_list(keys(values[0])), "; every replica must return one structure"));
  std::map<K, PerReplica<V>> result;
  for (const K& key : keys(values[0]))
    result.emplace(key, values.transform([&](const std::map<K, V>& own) { return own.at(key); }));
  return result;
}

}  // namespace tutti
