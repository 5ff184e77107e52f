#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/feature_column/embedding_lookup.h"
#include "tutti/feature_column/feature_column.h"

namespace tutti::feature_column {

struct EmbeddingColumnOptions {
  int64_t dimension = 0;  // required
  Combiner combiner = Combiner::mean;
  std::optional<keras::initializers::Initializer> initializer = {};  // none: TruncatedNormal of 1 / sqrt(dimension)
  std::optional<double> max_norm = {};
  bool trainable = true;
};

// Categories as rows of a table that is learnt: float32 [batch, dimension], of a sequence [batch, steps, dimension].
// Throws: invalid_argument for a column that is not of categories, or a dimension or max_norm that is not positive.
// TF: tf.feature_column.embedding_column.
FeatureColumn embedding_column(const FeatureColumn& categorical_column, const EmbeddingColumnOptions& options);

struct SharedEmbeddingsOptions {
  int64_t dimension = 0;  // required
  Combiner combiner = Combiner::mean;
  std::optional<keras::initializers::Initializer> initializer = {};
  std::string shared_embedding_collection_name = {};  // of the table; empty: made of the columns' names
  std::optional<double> max_norm = {};
  bool trainable = true;
};

// The same of several columns with one table, in their order. Throws: invalid_argument for columns of unlike numbers of
// buckets. TF: tf.feature_column.shared_embeddings.
std::vector<FeatureColumn> shared_embeddings(const std::vector<FeatureColumn>& categorical_columns,
                                             const SharedEmbeddingsOptions& options);

// How often each category occurs in an example, or the sum of its weights: float32 [batch, num_buckets], of a sequence
// [batch, steps, num_buckets]. What has no category adds nothing; with weights it is refused (invalid_argument).
// TF: tf.feature_column.indicator_column.
FeatureColumn indicator_column(const FeatureColumn& categorical_column);

}  // namespace tutti::feature_column
