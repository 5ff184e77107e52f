#include "tutti/feature_column/categorical_column.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/List.h>
#include <ATen/ops/index.h>

#include <fstream>
#include <memory>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/category_ids.h"

namespace tutti::feature_column {
namespace {

using keras::layers::CategoryIds;
using keras::layers::CategoryIdsOptions;
using keras::layers::StepRecorder;
using Kind = CategoryIdsOptions::Kind;

// Values of one feature, by a vocabulary, their hash or themselves.
class CategoricalColumn : public FeatureColumnImpl {
 public:
  CategoricalColumn(const std::string& key, CategoryIdsOptions options)
      : FeatureColumnImpl(key), ids_(named(key, std::move(options))) {}

  void add_to(data::ParseSpec& spec) const override {
    if (ids_.options().is_text)
      add_feature(spec, name(), data::VarLenFeature<std::string>{name()});
    else
      add_feature(spec, name(), data::VarLenFeature<int64_t>{name(), -1});
  }
  bool is_categorical() const override { return true; }
  bool can_be_crossed() const override { return ids_.options().kind != Kind::hash; }
  int64_t num_buckets() const override { return ids_.num_buckets(); }
  Tensor category_ids(const data::Columns& features) const override {
    return ids_(feature_values(features, name(), *this));
  }
  // Ids that have no bucket are refused where a bucket is looked for. A saved program can name the column here only.
  SparseIds sparse_ids(const data::Columns& features) const override {
    if (!StepRecorder::current() || ids_.options().kind != Kind::identity)
      return FeatureColumnImpl::sparse_ids(features);
    CategoryIdsOptions options = ids_.options();
    options.refused_from = num_buckets();
    return sparse_ids_of(CategoryIds(std::move(options))(feature_values(features, name(), *this)));
  }

 private:
  static CategoryIdsOptions named(const std::string& key, CategoryIdsOptions options) {
    options.column = options.feature = key;
    return options;
  }

  CategoryIds ids_;
};

FeatureColumn vocabulary_column(const std::string& key, KeyType type, std::vector<std::string> words,
                                const VocabularyColumnOptions& options) {
  CategoryIdsOptions ids{.is_text = type == KeyType::string,
                         .kind = Kind::vocabulary,
                         .vocabulary = std::make_shared<const std::vector<std::string>>(std::move(words)),
                         .num_buckets = options.num_oov_buckets,
                         .default_value = options.default_value};
  return FeatureColumn(std::make_shared<CategoricalColumn>(key, std::move(ids)));
}

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

  Tensor category_ids(const data::Columns&) const override { refuse("has weights, which cannot be crossed"); }
  SparseIds sparse_ids(const data::Columns& features) const override {
    SparseIds found = categories_->sparse_ids(features);
    const Tensor weights = numeric_feature(features, weight_key_, *this).cpu().to(at::kFloat);
    const Tensor flat = weights.reshape({weights.size(0), -1});
    // A program that is saved looks at no value here; its index does.
    if (!StepRecorder::current() && (flat.size(0) != found.num_rows || flat.size(1) < found.num_places))
      refuse(str("the feature '", weight_key_, "' has shape ", str_list(weights.sizes()), ", and the categories [",
                 found.num_rows, ", ", found.num_places, "]; there is a weight for each"));
    found.weights =
        at::index(flat, c10::List<std::optional<Tensor>>({found.indices.select(1, 0), found.indices.select(1, 1)}));
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
  return vocabulary_column(key, vocabulary_list.type(), vocabulary_list.words(), options);
}

FeatureColumn categorical_column_with_vocabulary_file(const std::string& key,
                                                      const std::filesystem::path& vocabulary_file,
                                                      const VocabularyFileOptions& options) {
  return vocabulary_column(
      key, options.dtype, lines_of(vocabulary_file, options.vocabulary_size),
      VocabularyColumnOptions{.default_value = options.default_value, .num_oov_buckets = options.num_oov_buckets});
}

FeatureColumn categorical_column_with_identity(const std::string& key, const IdentityColumnOptions& options) {
  CategoryIdsOptions ids{.is_text = false,
                         .kind = Kind::identity,
                         .num_buckets = options.num_buckets,
                         .default_value = options.default_value};
  return FeatureColumn(std::make_shared<CategoricalColumn>(key, std::move(ids)));
}

FeatureColumn categorical_column_with_hash_bucket(const std::string& key, const HashBucketOptions& options) {
  CategoryIdsOptions ids{
      .is_text = options.dtype == KeyType::string, .kind = Kind::hash, .num_buckets = options.hash_bucket_size};
  return FeatureColumn(std::make_shared<CategoricalColumn>(key, std::move(ids)));
}

FeatureColumn weighted_categorical_column(const FeatureColumn& categorical_column,
                                          const WeightedColumnOptions& options) {
  return FeatureColumn(std::make_shared<WeightedColumn>(categorical_column, options.weight_feature_key));
}

}  // namespace tutti::feature_column
