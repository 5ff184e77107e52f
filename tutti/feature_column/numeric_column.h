#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/feature_column/feature_column.h"

namespace tutti::feature_column {

// One number for all values of an example, or one for each; none: the feature must be there.
using DefaultNumbers = std::vector<float>;

struct NumericColumnOptions {
  keras::Shape shape = {1};  // of the feature in one example
  DefaultNumbers default_value = {};
  std::function<Tensor(const Tensor&)> normalizer_fn = {};  // of the whole batch
};

// Numbers as they are: float32 [batch, *shape]; integers are cast. A feature [batch] counts as [batch, 1].
// Throws: invalid_argument for a shape without extents or with one below 1, or another number of defaults; when it is
// used, for a feature of another shape; unimplemented for text. TF: tf.feature_column.numeric_column.
FeatureColumn numeric_column(const std::string& key, const NumericColumnOptions& options = {});

// Which of the intervals (-inf, b0), [b0, b1), … [bn, inf) a number lies in: a column of categories, and one of
// numbers, with a 1 for that interval. Of an example with several numbers each has buckets of its own.
// Throws: invalid_argument unless the boundaries rise, and for a column that is not a numeric_column of one axis.
// TF: tf.feature_column.bucketized_column.
FeatureColumn bucketized_column(const FeatureColumn& source_column, const std::vector<double>& boundaries);

}  // namespace tutti::feature_column
