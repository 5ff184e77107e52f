#include "tutti/feature_column/embedding_column.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"

namespace tutti::feature_column {
namespace {

// Each place as an example of its own.
SparseIds by_step(const SparseIds& ids) {
  SparseIds steps = ids;
  const Tensor row = ids.indices.select(1, 0) * ids.num_places + ids.indices.select(1, 1);
  steps.indices = at::stack({row, at::zeros_like(row)}, 1);
  steps.num_rows = ids.num_rows * ids.num_places;
  steps.num_places = 1;
  return steps;
}

// Numbers made of a column of categories.
class OfCategories : public FeatureColumnImpl {
 public:
  OfCategories(FeatureColumn categories, const std::string& suffix)
      : FeatureColumnImpl(categories.name() + suffix), categories_(std::move(categories)) {
    if (!categories_->is_categorical()) refuse(str("'", categories_.name(), "' is no column of categories"));
  }

  void add_to(data::ParseSpec& spec) const override { categories_->add_to(spec); }
  bool is_dense() const override { return true; }
  bool is_sequence() const override { return categories_->is_sequence(); }
  Tensor sequence_lengths(const data::Columns& features) const override {
    return categories_->sequence_lengths(features);
  }
  Tensor dense(const data::Columns& features, const Tensor& table) const override {
    const SparseIds ids = categories_->sparse_ids(features);
    if (!is_sequence()) return of_ids(ids, table);
    return of_ids(by_step(ids), table).reshape({ids.num_rows, ids.num_places, variable_shape()[0]});
  }

 protected:
  virtual Tensor of_ids(const SparseIds& ids, const Tensor& table) const = 0;
  const FeatureColumn& categories() const { return categories_; }

 private:
  FeatureColumn categories_;
};

class EmbeddingColumn : public OfCategories {
 public:
  // `table`: the name, or empty for that of the column.
  EmbeddingColumn(const FeatureColumn& categories, const EmbeddingColumnOptions& options, const std::string& table)
      : OfCategories(categories, table.empty() ? "_embedding" : "_shared_embedding"),
        options_(options),
        table_(table.empty() ? name() : table) {
    if (options_.dimension < 1) refuse(str("dimension is ", options_.dimension, "; it is at least 1"));
    if (options_.max_norm && !(*options_.max_norm > 0))
      refuse(str("max_norm is ", *options_.max_norm, "; it is positive"));
  }

  keras::Shape variable_shape() const override { return {options_.dimension}; }
  std::optional<EmbeddingTable> table() const override {
    const double stddev = 1 / std::sqrt(static_cast<double>(options_.dimension));
    return EmbeddingTable{
        .name = table_,
        .num_rows = categories()->num_buckets(),
        .dimension = options_.dimension,
        .initializer = options_.initializer.value_or(keras::initializers::TruncatedNormal({.stddev = stddev})),
        .trainable = options_.trainable};
  }

 private:
  Tensor of_ids(const SparseIds& ids, const Tensor& table) const override {
    return embedding_lookup(ids, table, options_.combiner, options_.max_norm, *this);
  }

  EmbeddingColumnOptions options_;
  std::string table_;
};

class IndicatorColumn : public OfCategories {
 public:
  explicit IndicatorColumn(const FeatureColumn& categories) : OfCategories(categories, "_indicator") {}

  keras::Shape variable_shape() const override { return {categories()->num_buckets()}; }

 private:
  Tensor of_ids(const SparseIds& ids, const Tensor&) const override {
    const int64_t buckets = categories()->num_buckets();
    if (!keras::layers::StepRecorder::current()) check(ids, buckets);
    // What has a weight counts, and must be one of the buckets, which index_select sees to in a program that is saved.
    const Tensor counts = ids.weights.defined() ? at::ones_like(ids.ids, at::kBool) : ids.ids >= 0;
    const Tensor known = counts.nonzero().squeeze(1);
    const Tensor kept = at::arange(buckets).index_select(0, ids.ids.index_select(0, known));
    const Tensor weights = ids.weights.defined() ? ids.weights : at::ones_like(ids.ids, at::kFloat);
    const Tensor places = ids.indices.select(1, 0).index_select(0, known) * buckets + kept;
    return at::zeros({ids.num_rows * buckets})
        .index_add(0, places, weights.index_select(0, known))
        .view({ids.num_rows, buckets});
  }
  void check(const SparseIds& ids, int64_t buckets) const {
    if (ids.ids.numel() == 0) return;
    if (ids.weights.defined() && ids.ids.min().item<int64_t>() < 0)
      refuse("a value that is in no category has a weight; give the categories num_oov_buckets or a default_value");
    if (const int64_t largest = ids.ids.max().item<int64_t>(); largest >= buckets)
      refuse(str("category ", largest, " is not one of [0, ", buckets, ')'), ErrorCode::out_of_range);
  }
};

}  // namespace

FeatureColumn embedding_column(const FeatureColumn& categorical_column, const EmbeddingColumnOptions& options) {
  return FeatureColumn(std::make_shared<EmbeddingColumn>(categorical_column, options, std::string()));
}

std::vector<FeatureColumn> shared_embeddings(const std::vector<FeatureColumn>& categorical_columns,
                                             const SharedEmbeddingsOptions& options) {
  if (categorical_columns.empty()) throw Error(ErrorCode::invalid_argument, "shared_embeddings: there are no columns");
  std::vector<std::string> names;
  for (const FeatureColumn& column : categorical_columns) {
    const int64_t buckets = column->num_buckets(), first = categorical_columns[0]->num_buckets();
    if (buckets != first)
      column->refuse(str("it has ", buckets, " buckets, and '", categorical_columns[0].name(), "' has ", first,
                         "; columns with one table have as many"));
    names.push_back(column.name());
  }
  std::ranges::sort(names);
  std::string table = options.shared_embedding_collection_name;
  if (table.empty()) {
    for (const std::string& name : names) table += name + '_';
    table += "shared_embedding";
  }
  std::vector<FeatureColumn> columns;
  for (const FeatureColumn& column : categorical_columns)
    columns.emplace_back(std::make_shared<EmbeddingColumn>(column,
                                                           EmbeddingColumnOptions{.dimension = options.dimension,
                                                                                  .combiner = options.combiner,
                                                                                  .initializer = options.initializer,
                                                                                  .max_norm = options.max_norm,
                                                                                  .trainable = options.trainable},
                                                           table));
  return columns;
}

FeatureColumn indicator_column(const FeatureColumn& categorical_column) {
  return FeatureColumn(std::make_shared<IndicatorColumn>(categorical_column));
}

}  // namespace tutti::feature_column
