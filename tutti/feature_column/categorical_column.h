#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/feature_column/feature_column.h"
#include "tutti/feature_column/feature_values.h"

// Columns of categories: text or integers of any number in each example, of which "" and -1 are missing values.
// Features are [batch], [batch, n], or padded with lengths (data::Columns). Throws: invalid_argument for options out of
// range; when they are used, for a feature that is not there or of the other kind.
namespace tutti::feature_column {

struct VocabularyColumnOptions {
  int64_t default_value = -1;   // the id of what is not in the vocabulary; -1 counts as no category
  int64_t num_oov_buckets = 0;  // ids behind the vocabulary, for the rest by its hash; not with a default_value
};

// Text or integers: {"north", "south"}, {1, 5}, or a std::vector of them.
class VocabularyList {
 public:
  VocabularyList(std::initializer_list<const char*> words) : words_(words.begin(), words.end()) {}
  VocabularyList(std::initializer_list<std::string> words) : words_(words) {}
  VocabularyList(std::vector<std::string> words) : words_(std::move(words)) {}
  VocabularyList(std::initializer_list<int64_t> numbers) : VocabularyList(std::vector<int64_t>(numbers)) {}
  VocabularyList(const std::vector<int64_t>& numbers);

  KeyType type() const { return type_; }
  // Integers as their digits.
  const std::vector<std::string>& words() const { return words_; }

 private:
  KeyType type_ = KeyType::string;
  std::vector<std::string> words_;
};

// The place of each value in the vocabulary. Throws: invalid_argument for an empty vocabulary or a value in it twice.
// TF: tf.feature_column.categorical_column_with_vocabulary_list.
FeatureColumn categorical_column_with_vocabulary_list(const std::string& key, const VocabularyList& vocabulary_list,
                                                      const VocabularyColumnOptions& options = {});

struct VocabularyFileOptions {
  std::optional<int64_t> vocabulary_size = {};  // the first lines; none: all
  int64_t default_value = -1;
  int64_t num_oov_buckets = 0;
  KeyType dtype = KeyType::string;
};

// The same with a file of one value a line, which is read here. Throws: not_found; invalid_argument for a file of fewer
// lines than vocabulary_size. TF: tf.feature_column.categorical_column_with_vocabulary_file.
FeatureColumn categorical_column_with_vocabulary_file(const std::string& key,
                                                      const std::filesystem::path& vocabulary_file,
                                                      const VocabularyFileOptions& options = {});

struct IdentityColumnOptions {
  int64_t num_buckets = 0;                    // required
  std::optional<int64_t> default_value = {};  // for integers that are not in [0, num_buckets); none: refused where used
};

// Integers that are ids already. TF: tf.feature_column.categorical_column_with_identity.
FeatureColumn categorical_column_with_identity(const std::string& key, const IdentityColumnOptions& options);

struct HashBucketOptions {
  int64_t hash_bucket_size = 0;  // required
  KeyType dtype = KeyType::string;
};

// The FarmHash fingerprint of text, or of an integer's digits, modulo the number of buckets.
// TF: tf.feature_column.categorical_column_with_hash_bucket.
FeatureColumn categorical_column_with_hash_bucket(const std::string& key, const HashBucketOptions& options);

struct WeightedColumnOptions {
  std::string weight_feature_key;  // required: float32, as many as there are categories
};

// The categories of another column, each with a weight. TF: tf.feature_column.weighted_categorical_column.
FeatureColumn weighted_categorical_column(const FeatureColumn& categorical_column,
                                          const WeightedColumnOptions& options);

}  // namespace tutti::feature_column
