#pragma once

#include <string>
#include <vector>

#include "tests/support/oracle.h"
#include "tutti/feature_column/feature_column.h"

namespace tutti::oracle {

// {"numeric": "x", "shape": [3]} and its kin. Throws std::runtime_error for a column that is not read yet.
feature_column::FeatureColumn feature_column_of(const Json& json);
// A list of them; shared embeddings are several.
std::vector<feature_column::FeatureColumn> feature_columns_of(const Json& json);

// A dictionary of tensors, strings among them.
data::Columns columns_of(const Json& json);
Strings strings_of(const Json& json);

}  // namespace tutti::oracle
