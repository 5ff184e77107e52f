#pragma once

#include <vector>

#include "tutti/feature_column/feature_column.h"

namespace tutti::feature_column {

// What parse_example reads for these columns. Throws: invalid_argument for columns that read one feature in two ways.
// TF: tf.feature_column.make_parse_example_spec.
data::ParseSpec make_parse_example_spec(const std::vector<FeatureColumn>& feature_columns);

}  // namespace tutti::feature_column
