#include "tutti/feature_column/numeric_column.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/feature_column/feature_values.h"

namespace tutti::feature_column {
namespace {

int64_t num_elements(const keras::Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

class NumericColumn : public FeatureColumnImpl {
 public:
  NumericColumn(const std::string& key, const NumericColumnOptions& options)
      : FeatureColumnImpl(key), options_(options) {
    if (options_.shape.empty() || std::ranges::any_of(options_.shape, [](int64_t size) { return size < 1; }))
      refuse(str("shape is ", str_list(options_.shape), "; every extent is at least 1"));
    const auto count = static_cast<int64_t>(options_.default_value.size());
    if (count > 1 && count != num_elements(options_.shape))
      refuse(str("default_value has ", count, " numbers; shape ", str_list(options_.shape), " takes none, one or ",
                 num_elements(options_.shape)));
  }

  void add_to(data::ParseSpec& spec) const override {
    DefaultNumbers defaults = options_.default_value;
    if (defaults.size() == 1) defaults.resize(static_cast<size_t>(num_elements(options_.shape)), defaults[0]);
    add_feature(spec, name(), data::FixedLenFeature<float>{name(), options_.shape, defaults});
  }

  bool is_dense() const override { return true; }
  keras::Shape variable_shape() const override { return options_.shape; }

  Tensor dense(const data::Columns& features, const Tensor&) const override {
    const Tensor numbers = numeric_feature(features, name(), *this);
    if (numbers.sizes().slice(1) != at::IntArrayRef(options_.shape))
      refuse(str("the feature has shape ", str_list(numbers.sizes()), "; the column is for [batch, ",
                 str_list(options_.shape).substr(1)));
    return (options_.normalizer_fn ? options_.normalizer_fn(numbers) : numbers).to(at::kFloat);
  }

 private:
  NumericColumnOptions options_;
};

class BucketizedColumn : public FeatureColumnImpl {
 public:
  BucketizedColumn(std::shared_ptr<const NumericColumn> source, const std::vector<double>& boundaries)
      : FeatureColumnImpl(source->name() + "_bucketized"),
        source_(std::move(source)),
        boundaries_(at::tensor(boundaries, at::kFloat)),
        buckets_each_(static_cast<int64_t>(boundaries.size()) + 1) {
    if (boundaries.empty() || std::ranges::adjacent_find(boundaries, std::greater_equal<>()) != boundaries.end())
      refuse(str("the boundaries ", str_list(boundaries), " do not rise; give one or more, the smallest first"));
    if (source_->variable_shape().size() != 1)
      refuse(str("the numbers have shape ", str_list(source_->variable_shape()), "; only one axis can be bucketized"));
  }

  void add_to(data::ParseSpec& spec) const override { source_->add_to(spec); }

  bool is_categorical() const override { return true; }
  int64_t num_buckets() const override { return buckets_each_ * source_->variable_shape()[0]; }
  Tensor category_ids(const data::Columns& features) const override {
    const Tensor found = buckets(features).cpu();
    return found + at::arange(found.size(1)) * buckets_each_;
  }

  bool is_dense() const override { return true; }
  keras::Shape variable_shape() const override { return {source_->variable_shape()[0], buckets_each_}; }
  Tensor dense(const data::Columns& features, const Tensor&) const override {
    return at::one_hot(buckets(features), buckets_each_).to(at::kFloat);
  }

 private:
  Tensor buckets(const data::Columns& features) const {
    const Tensor numbers = source_->dense(features, {});
    return at::bucketize(numbers, boundaries_.to(numbers.device()), /*out_int32=*/false, /*right=*/true);
  }

  std::shared_ptr<const NumericColumn> source_;
  Tensor boundaries_;  // float32, as the numbers are: 0.7f is no less than 0.7
  int64_t buckets_each_;
};

}  // namespace

FeatureColumn numeric_column(const std::string& key, const NumericColumnOptions& options) {
  return FeatureColumn(std::make_shared<NumericColumn>(key, options));
}

FeatureColumn bucketized_column(const FeatureColumn& source_column, const std::vector<double>& boundaries) {
  auto source = std::dynamic_pointer_cast<const NumericColumn>(source_column.impl());
  if (!source) source_column->refuse("is no numeric_column, which a bucketized_column is made of");
  return FeatureColumn(std::make_shared<BucketizedColumn>(std::move(source), boundaries));
}

}  // namespace tutti::feature_column
