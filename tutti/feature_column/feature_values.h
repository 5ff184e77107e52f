#pragma once

#include <string>
#include <vector>

#include "tutti/feature_column/feature_column.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"

namespace tutti::feature_column {

// What the categories of a column are in its feature.
enum class KeyType { string, int64 };

// The feature `key` as inputs of CategoryIds or CrossedIds: its values, and their lengths if it has them.
// Throws: invalid_argument, in the name of the column, for a feature that is not there, a scalar, or another dtype.
std::vector<keras::layers::TensorOrText> feature_values(const data::Columns& features, const std::string& key,
                                                        const FeatureColumnImpl& column);

// Of ids [batch, n], with kNoCategory where there is none.
SparseIds sparse_ids_of(const Tensor& category_ids);

// float32 [batch, n] of a feature of numbers, checked against the shape of one example.
Tensor numeric_feature(const data::Columns& features, const std::string& key, const FeatureColumnImpl& column);

}  // namespace tutti::feature_column
