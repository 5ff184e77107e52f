#include "tutti/feature_column/sequence_column.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scatter_reduce.h>
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
  SparseIds sparse_ids(const data::Columns& features) const override { return categories_->sparse_ids(features); }

  bool is_sequence() const override { return true; }
  Tensor sequence_lengths(const data::Columns& features) const override {
    const SparseIds ids = sparse_ids(features);
    return at::zeros({ids.num_rows}, at::kLong)
        .scatter_reduce(0, ids.indices.select(1, 0), ids.indices.select(1, 1) + 1, "amax");
  }

 private:
  FeatureColumn categories_;
};

class SequenceNumbers : public FeatureColumnImpl {
 public:
  SequenceNumbers(const std::string& key, const SequenceNumericOptions& options)
      : FeatureColumnImpl(key), options_(options) {
    if (options_.shape.empty()) refuse("shape has no extents; {1} is a number in each step");
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
    const Tensor numbers = numbers_of(features);
    const auto given = features.lengths.find(name());
    if (given == features.lengths.end()) {
      const Tensor of_step = in_steps(numbers, 0).flatten(2).select(2, 0);
      return at::ones_like(of_step, of_step.options().dtype(at::kLong)).sum(1).cpu();
    }
    return (given->second.cpu().to(at::kLong) + (num_elements() - 1)).div(num_elements(), "floor");
  }

  Tensor dense(const data::Columns& features, const Tensor&) const override {
    const Tensor numbers = numbers_of(features), steps = in_steps(numbers, 0);
    const Tensor normalized = options_.normalizer_fn ? options_.normalizer_fn(steps) : steps;
    const auto given = features.lengths.find(name());
    if (given == features.lengths.end()) return normalized;
    const Tensor place = at::ones_like(numbers, numbers.options().dtype(at::kLong)).cumsum(1);
    const Tensor behind_end = place > given->second.to(numbers.device()).unsqueeze(1);
    return normalized.masked_fill(in_steps(behind_end.to(at::kFloat), 1) > 0, options_.default_value);
  }

 private:
  int64_t num_elements() const {
    return std::accumulate(options_.shape.begin(), options_.shape.end(), int64_t{1}, std::multiplies<>());
  }
  // [batch, steps * elements]; where an example has lengths, its last step may lack some.
  Tensor numbers_of(const data::Columns& features) const {
    const Tensor numbers = numeric_feature(features, name(), *this).flatten(1);
    if (numbers.size(1) % num_elements() != 0 && !features.lengths.contains(name()) &&
        !keras::layers::StepRecorder::current())
      refuse(
          str("the feature has ", numbers.size(1), " numbers in each row, no multiple of a step's ", num_elements()));
    return numbers;
  }
  // [batch, steps, *shape]. No call names the number of steps, so that a program that is saved takes any.
  Tensor in_steps(const Tensor& numbers, double filler) const {
    const int64_t elements = num_elements();
    const Tensor filled = elements == 1 ? numbers : at::constant_pad_nd(numbers, {0, 2 * elements - 1}, filler);
    const Tensor steps = elements == 1 ? filled.unsqueeze(2) : filled.unfold(1, elements, elements).slice(1, 0, -1);
    return options_.shape.size() == 1 ? steps : steps.unflatten(2, options_.shape);
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
