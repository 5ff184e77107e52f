#pragma once

#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

// One value per replica, in replica order. A plain container: shapes may differ between replicas and T may be anything.
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

 private:
  std::vector<T> values_;
};

template <class T>
inline constexpr bool is_per_replica = false;
template <class T>
inline constexpr bool is_per_replica<PerReplica<T>> = true;

}  // namespace tutti
