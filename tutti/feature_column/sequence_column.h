#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tutti/feature_column/categorical_column.h"
#include "tutti/feature_column/numeric_column.h"

// Columns whose features are sequences: each place of a row is a step. They are for SequenceFeatures, categories within
// embedding_column or indicator_column. TF: tf.feature_column.sequence_…
namespace tutti::feature_column {

FeatureColumn sequence_categorical_column_with_identity(const std::string& key, const IdentityColumnOptions& options);
FeatureColumn sequence_categorical_column_with_hash_bucket(const std::string& key, const HashBucketOptions& options);
FeatureColumn sequence_categorical_column_with_vocabulary_list(const std::string& key,
                                                               const VocabularyList& vocabulary_list,
                                                               const VocabularyColumnOptions& options = {});
FeatureColumn sequence_categorical_column_with_vocabulary_file(const std::string& key,
                                                               const std::filesystem::path& vocabulary_file,
                                                               const VocabularyFileOptions& options = {});

struct SequenceNumericOptions {
  keras::Shape shape = {1};  // of a step
  float default_value = 0;   // behind the end of a sequence
  std::function<Tensor(const Tensor&)> normalizer_fn = {};
};

// [batch, steps, *shape] of a feature [batch, steps * elements of the shape], with lengths where steps are missing.
FeatureColumn sequence_numeric_column(const std::string& key, const SequenceNumericOptions& options = {});

}  // namespace tutti::feature_column
