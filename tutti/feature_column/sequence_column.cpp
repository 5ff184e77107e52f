#include "tutti/feature_column/sequence_column.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"

namespace tutti::feature_column {
namespace {

class SequenceCategories : public FeatureColumnImpl {
 public:
  explicit SequenceCategories(FeatureColumn categories)
      : FeatureColumnImpl(categories.name()), categories_(std::move(categories)) {}

  void add_to(data::ParseSpec& spec) const override { categories_->add_to(spec); }
  bool is_categorical() const override { return true; }
  bool can_be_crossed() const override { return false; }
  int64_t num_buckets() const override { return categories_->num_buckets(); }
  SparseIds sparse_ids(const data::Columns& features) const override {
    if (keras::layers::StepRecorder::current())
      refuse("is a column of sequences, which cannot be saved yet", ErrorCode::unimplemented);
    return categories_->sparse_ids(features);
  }

  bool is_sequence() const override { return true; }
  Tensor sequence_lengths(const data::Columns& features) const override {
    const SparseIds ids = sparse_ids(features);
    Tensor lengths = at::zeros({ids.num_rows}, at::kLong);
    const Tensor indices = ids.indices.contiguous();
    const auto* index = indices.const_data_ptr<int64_t>();
    auto* length = lengths.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < ids.ids.numel(); ++i)
      length[index[2 * i]] = std::max(length[index[2 * i]], index[2 * i + 1] + 1);
    return lengths;
  }

 private:
  FeatureColumn categories_;
};

class SequenceNumbers : public FeatureColumnImpl {
 public:
  SequenceNumbers(const std::string& key, const SequenceNumericOptions& options)
      : FeatureColumnImpl(key), options_(options) {
    if (std::ranges::any_of(options_.shape, [](int64_t size) { return size < 1; }))
      refuse(str("shape is ", str_list(options_.shape), "; every extent is at least 1"));
  }

  void add_to(data::ParseSpec& spec) const override {
    add_feature(spec, name(), data::VarLenFeature<float>{name(), options_.default_value});
  }
  bool is_dense() const override { return true; }
  keras::Shape variable_shape() const override { return options_.shape; }
  bool is_sequence() const override { return true; }

  Tensor sequence_lengths(const data::Columns& features) const override {
    const Tensor numbers = steps(features);
    const auto given = features.lengths.find(name());
    if (given == features.lengths.end()) return at::full({numbers.size(0)}, numbers.size(1), at::kLong);
    return given->second.cpu().to(at::kLong).div(num_elements(), "floor");
  }

  Tensor dense(const data::Columns& features, const Tensor&) const override {
    const Tensor numbers = steps(features);
    const Tensor normalized = options_.normalizer_fn ? options_.normalizer_fn(numbers) : numbers;
    Tensor behind_end = at::arange(numbers.size(1)).unsqueeze(0) >= sequence_lengths(features).unsqueeze(1);
    for (size_t axis = 0; axis < options_.shape.size(); ++axis) behind_end = behind_end.unsqueeze(-1);
    return normalized.masked_fill(behind_end.to(numbers.device()), options_.default_value);
  }

 private:
  int64_t num_elements() const {
    return std::accumulate(options_.shape.begin(), options_.shape.end(), int64_t{1}, std::multiplies<>());
  }
  Tensor steps(const data::Columns& features) const {
    const Tensor numbers = numeric_feature(features, name(), *this);
    const int64_t count = numbers.numel() / std::max<int64_t>(1, numbers.size(0));
    if (count % num_elements() != 0)
      refuse(str("the feature has ", count, " numbers in each row, no multiple of a step's ", num_elements()));
    keras::Shape shape{numbers.size(0), count / num_elements()};
    shape.insert(shape.end(), options_.shape.begin(), options_.shape.end());
    return numbers.reshape(shape);
  }

  SequenceNumericOptions options_;
};

FeatureColumn sequence_of(FeatureColumn categories) {
  return FeatureColumn(std::make_shared<SequenceCategories>(std::move(categories)));
}

}  // namespace

FeatureColumn sequence_categorical_column_with_identity(const std::string& key, const IdentityColumnOptions& options) {
  return sequence_of(categorical_column_with_identity(key, options));
}

FeatureColumn sequence_categorical_column_with_hash_bucket(const std::string& key, const HashBucketOptions& options) {
  return sequence_of(categorical_column_with_hash_bucket(key, options));
}

FeatureColumn sequence_categorical_column_with_vocabulary_list(const std::string& key,
                                                               const VocabularyList& vocabulary_list,
                                                               const VocabularyColumnOptions& options) {
  return sequence_of(categorical_column_with_vocabulary_list(key, vocabulary_list, options));
}

FeatureColumn sequence_categorical_column_with_vocabulary_file(const std::string& key,
                                                               const std::filesystem::path& vocabulary_file,
                                                               const VocabularyFileOptions& options) {
  return sequence_of(categorical_column_with_vocabulary_file(key, vocabulary_file, options));
}

FeatureColumn sequence_numeric_column(const std::string& key, const SequenceNumericOptions& options) {
  return FeatureColumn(std::make_shared<SequenceNumbers>(key, options));
}

}  // namespace tutti::feature_column
