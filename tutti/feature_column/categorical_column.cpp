#include "tutti/feature_column/categorical_column.h"

#include <ATen/TensorOperators.h>

#include <fstream>
#include <unordered_map>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/fingerprint64.h"
#include "tutti/core/str.h"

namespace tutti::feature_column {
namespace {

int64_t bucket_of(std::string_view text, int64_t num_buckets) {
  return static_cast<int64_t>(fingerprint64(text) % static_cast<uint64_t>(num_buckets));
}
int64_t bucket_of(int64_t number, int64_t num_buckets) { return bucket_of(std::to_string(number), num_buckets); }

// A feature of categories, by its key.
class CategoricalFeature : public FeatureColumnImpl {
 public:
  CategoricalFeature(const std::string& key, KeyType type) : FeatureColumnImpl(key), type_(type) {}

  void add_to(data::ParseSpec& spec) const override {
    if (type_ == KeyType::string)
      add_feature(spec, name(), data::VarLenFeature<std::string>{name()});
    else
      add_feature(spec, name(), data::VarLenFeature<int64_t>{name(), -1});
  }
  bool is_categorical() const override { return true; }

 protected:
  FeatureValues values(const data::Columns& features) const { return feature_values(features, name(), *this, type_); }
  KeyType type() const { return type_; }

 private:
  KeyType type_;
};

class VocabularyColumn : public CategoricalFeature {
 public:
  // Integers are told apart by their digits.
  VocabularyColumn(const std::string& key, KeyType type, const std::vector<std::string>& words,
                   const VocabularyColumnOptions& options)
      : CategoricalFeature(key, type), options_(options) {
    if (words.empty()) refuse("the vocabulary is empty");
    for (const std::string& word : words)
      if (!ids_.try_emplace(word, static_cast<int64_t>(ids_.size())).second)
        refuse(str("the vocabulary has '", word, "' twice"));
    if (options_.num_oov_buckets < 0) refuse(str("num_oov_buckets is ", options_.num_oov_buckets, ", below 0"));
    if (options_.num_oov_buckets > 0 && options_.default_value != -1)
      refuse("num_oov_buckets and default_value are given, and only one of them can say what an unknown value is");
    if (options_.default_value < -1 || options_.default_value >= num_words())
      refuse(
          str("default_value is ", options_.default_value, "; it is -1 or the id of one of ", num_words(), " values"));
  }

  int64_t num_buckets() const override { return num_words() + options_.num_oov_buckets; }
  SparseIds sparse_ids(const data::Columns& features) const override {
    return ids_of(values(features), [this](const auto& value) {
      if constexpr (std::is_integral_v<std::decay_t<decltype(value)>>)
        return id_of(std::to_string(value));
      else
        return id_of(std::string(value));
    });
  }

 private:
  int64_t num_words() const { return static_cast<int64_t>(ids_.size()); }
  int64_t id_of(const std::string& word) const {
    if (const auto found = ids_.find(word); found != ids_.end()) return found->second;
    if (options_.num_oov_buckets == 0) return options_.default_value;
    return num_words() + bucket_of(word, options_.num_oov_buckets);
  }

  VocabularyColumnOptions options_;
  std::unordered_map<std::string, int64_t> ids_;
};

class IdentityColumn : public CategoricalFeature {
 public:
  IdentityColumn(const std::string& key, const IdentityColumnOptions& options)
      : CategoricalFeature(key, KeyType::int64), options_(options) {
    if (options_.num_buckets < 1) refuse(str("num_buckets is ", options_.num_buckets, "; it is at least 1"));
    if (options_.default_value && !is_id(*options_.default_value))
      refuse(str("default_value is ", *options_.default_value, ", not one of [0, ", options_.num_buckets, ')'));
  }

  int64_t num_buckets() const override { return options_.num_buckets; }
  SparseIds sparse_ids(const data::Columns& features) const override {
    const FeatureValues found = values(features);
    return make_sparse_ids(found, ids(std::get<std::vector<int64_t>>(found.values)));
  }

 private:
  bool is_id(int64_t value) const { return value >= 0 && value < options_.num_buckets; }
  std::vector<int64_t> ids(std::vector<int64_t> values) const {
    if (options_.default_value)
      for (int64_t& value : values)
        if (!is_id(value)) value = *options_.default_value;
    return values;
  }

  IdentityColumnOptions options_;
};

class HashBucketColumn : public CategoricalFeature {
 public:
  HashBucketColumn(const std::string& key, const HashBucketOptions& options)
      : CategoricalFeature(key, options.dtype), num_buckets_(options.hash_bucket_size) {
    if (num_buckets_ < 1) refuse(str("hash_bucket_size is ", num_buckets_, "; it is at least 1"));
  }

  bool can_be_crossed() const override { return false; }
  int64_t num_buckets() const override { return num_buckets_; }
  SparseIds sparse_ids(const data::Columns& features) const override {
    return ids_of(values(features), [this](const auto& value) { return bucket_of(value, num_buckets_); });
  }

 private:
  int64_t num_buckets_;
};

class WeightedColumn : public FeatureColumnImpl {
 public:
  WeightedColumn(FeatureColumn categories, const std::string& weight_key)
      : FeatureColumnImpl(str(categories.name(), "_weighted_by_", weight_key)),
        categories_(std::move(categories)),
        weight_key_(weight_key) {
    if (!categories_->is_categorical()) refuse(str("'", categories_.name(), "' is no column of categories"));
  }

  void add_to(data::ParseSpec& spec) const override {
    categories_->add_to(spec);
    add_feature(spec, weight_key_, data::VarLenFeature<float>{weight_key_});
  }
  bool is_categorical() const override { return true; }
  int64_t num_buckets() const override { return categories_->num_buckets(); }

  SparseIds sparse_ids(const data::Columns& features) const override {
    SparseIds found = categories_->sparse_ids(features);
    const Tensor weights = numeric_feature(features, weight_key_, *this).cpu().to(at::kFloat);
    const Tensor flat = weights.reshape({weights.size(0), -1});
    if (flat.size(0) != found.num_rows || flat.size(1) < found.num_places)
      refuse(str("the feature '", weight_key_, "' has shape ", str_list(weights.sizes()), ", and the categories [",
                 found.num_rows, ", ", found.num_places, "]; there is a weight for each"));
    found.weights =
        flat.flatten().index_select(0, found.indices.select(1, 0) * flat.size(1) + found.indices.select(1, 1));
    return found;
  }

 private:
  FeatureColumn categories_;
  std::string weight_key_;
};

std::vector<std::string> lines_of(const std::filesystem::path& file, std::optional<int64_t> size) {
  std::ifstream stream(file);
  if (!stream) throw Error(ErrorCode::not_found, str("categorical_column_with_vocabulary_file: cannot read ", file));
  std::vector<std::string> lines;
  for (std::string line; (!size || static_cast<int64_t>(lines.size()) < *size) && std::getline(stream, line);)
    lines.push_back(line);
  if (size && static_cast<int64_t>(lines.size()) < *size)
    throw Error(ErrorCode::invalid_argument, str("categorical_column_with_vocabulary_file: vocabulary_size is ", *size,
                                                 ", and ", file, " has ", lines.size(), " lines"));
  return lines;
}

}  // namespace

VocabularyList::VocabularyList(const std::vector<int64_t>& numbers) : type_(KeyType::int64) {
  for (const int64_t number : numbers) words_.push_back(std::to_string(number));
}

FeatureColumn categorical_column_with_vocabulary_list(const std::string& key, const VocabularyList& vocabulary_list,
                                                      const VocabularyColumnOptions& options) {
  return FeatureColumn(
      std::make_shared<VocabularyColumn>(key, vocabulary_list.type(), vocabulary_list.words(), options));
}

FeatureColumn categorical_column_with_vocabulary_file(const std::string& key,
                                                      const std::filesystem::path& vocabulary_file,
                                                      const VocabularyFileOptions& options) {
  return FeatureColumn(std::make_shared<VocabularyColumn>(
      key, options.dtype, lines_of(vocabulary_file, options.vocabulary_size),
      VocabularyColumnOptions{.default_value = options.default_value, .num_oov_buckets = options.num_oov_buckets}));
}

FeatureColumn categorical_column_with_identity(const std::string& key, const IdentityColumnOptions& options) {
  return FeatureColumn(std::make_shared<IdentityColumn>(key, options));
}

FeatureColumn categorical_column_with_hash_bucket(const std::string& key, const HashBucketOptions& options) {
  return FeatureColumn(std::make_shared<HashBucketColumn>(key, options));
}

FeatureColumn weighted_categorical_column(const FeatureColumn& categorical_column,
                                          const WeightedColumnOptions& options) {
  return FeatureColumn(std::make_shared<WeightedColumn>(categorical_column, options.weight_feature_key));
}

}  // namespace tutti::feature_column
