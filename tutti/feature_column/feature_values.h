#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tutti/feature_column/feature_column.h"

namespace tutti::feature_column {

// What the categories of a column are in its feature.
enum class KeyType { string, int64 };

// The values of a feature that are there, by rows. What is missing is "" or -1, or lies behind a row's length.
struct FeatureValues {
  std::variant<std::vector<std::string_view>, std::vector<int64_t>> values;
  std::vector<std::pair<int64_t, int64_t>> places;  // of each: the example, and the place in it
  int64_t num_rows = 0;
  int64_t num_places = 0;
};

// Of the feature `key` [batch], [batch, n] or more axes, which count as one; the text lives as long as the features.
// `keep_empty`: "" and -1 count, as they do where a feature is crossed by its name.
// Throws: invalid_argument, in the name of the column, for a feature that is not there, a scalar, or another dtype.
FeatureValues feature_values(const data::Columns& features, const std::string& key, const FeatureColumnImpl& column,
                             bool keep_empty = false);

// The same of the type that the column is made for.
FeatureValues feature_values(const data::Columns& features, const std::string& key, const FeatureColumnImpl& column,
                             KeyType type);

// Ids for values, id(string_view) or id(int64_t) of each.
template <class Id>
SparseIds ids_of(const FeatureValues& values, const Id& id);

SparseIds make_sparse_ids(const FeatureValues& values, const std::vector<int64_t>& ids);

template <class Id>
SparseIds ids_of(const FeatureValues& values, const Id& id) {
  std::vector<int64_t> ids;
  ids.reserve(values.places.size());
  std::visit(
      [&](const auto& list) {
        for (const auto& value : list) ids.push_back(id(value));
      },
      values.values);
  return make_sparse_ids(values, ids);
}

// float32 [batch, n] of a feature of numbers, checked against the shape of one example.
Tensor numeric_feature(const data::Columns& features, const std::string& key, const FeatureColumnImpl& column);

}  // namespace tutti::feature_column
