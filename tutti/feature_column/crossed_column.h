#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tutti/feature_column/feature_column.h"

namespace tutti::feature_column {

// What is crossed: a feature by its key, or a column of categories.
class CrossKey {
 public:
  CrossKey(const char* key) : key_(std::string(key)) {}
  CrossKey(std::string key) : key_(std::move(key)) {}
  CrossKey(FeatureColumn column) : key_(std::move(column)) {}

  // Null for a column.
  const std::string* feature() const { return std::get_if<std::string>(&key_); }
  const FeatureColumn& column() const { return std::get<FeatureColumn>(key_); }
  const std::string& name() const { return feature() ? *feature() : column().name(); }

 private:
  std::variant<std::string, FeatureColumn> key_;
};

struct CrossedColumnOptions {
  int64_t hash_bucket_size = 0;      // required
  uint64_t hash_key = 0xDECAFCAFFE;  // where the hash starts
};

// All combinations of the categories that an example has, one of each key, as one hash modulo the number of buckets.
// A feature by its key counts with "" and -1, unless it has lengths; a column counts before the features, as it does in
// TensorFlow's hash. Throws: invalid_argument for fewer than two keys, or a column that is hashed already (cross the
// feature by its key: hashing twice collides more). TF: tf.feature_column.crossed_column.
FeatureColumn crossed_column(const std::vector<CrossKey>& keys, const CrossedColumnOptions& options);

}  // namespace tutti::feature_column
