#include "tutti/feature_column/linear_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>

#include <functional>
#include <numeric>

#include "tutti/core/str.h"
#include "tutti/feature_column/column_tables_internal.h"

namespace tutti::feature_column {

class LinearModel::Impl : public keras::layers::LayerImpl {
 public:
  Impl(std::vector<FeatureColumn> columns, const LinearModelOptions& options)
      : LayerImpl("LinearModel", options.name),
        options_(options),
        columns_(sorted_columns(std::move(columns), this->name())) {
    if (options_.units < 1) refuse(str("units is ", options_.units, "; it is at least 1"));
    if (columns_.empty()) refuse("there are no feature columns");
    for (const FeatureColumn& column : columns_)
      if (column->is_sequence()) column->refuse("is a column of sequences, which a linear model does not take");
    set_trainable(options_.trainable);
  }

  void build_all(const std::vector<keras::Shape>&) override {
    const keras::initializers::Zeros zeros;
    tables_.build(columns_, [this](const std::string& name, const EmbeddingTable& table) {
      return add_weight(name, {table.num_rows, table.dimension},
                        {.initializer = table.initializer, .trainable = table.trainable});
    });
    for (const FeatureColumn& column : columns_)
      weights_.push_back(
          add_weight(column.name() + "/weights", {num_inputs(column), options_.units}, {.initializer = zeros}));
    bias_ = add_weight("bias_weights", {options_.units}, {.initializer = zeros});
  }

  Tensor call(const data::Columns& features) const {
    Tensor sum = bias_;
    for (size_t i = 0; i < columns_.size(); ++i) sum = product(columns_[i], weights_[i], features) + sum;
    return sum;
  }

 private:
  static int64_t num_inputs(const FeatureColumn& column) {
    if (column->is_categorical()) return column->num_buckets();
    const keras::Shape shape = column->variable_shape();
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }

  Tensor product(const FeatureColumn& column, const Tensor& weights, const data::Columns& features) const {
    if (column->is_categorical())
      return embedding_lookup(column->sparse_ids(features), weights, options_.sparse_combiner, {}, *column);
    return at::mm(column->dense(features, tables_.of(column)).flatten(1).to(weights.scalar_type()), weights);
  }

  LinearModelOptions options_;
  std::vector<FeatureColumn> columns_;
  ColumnTables tables_;
  std::vector<Tensor> weights_;
  Tensor bias_;
};

LinearModel::LinearModel(std::vector<FeatureColumn> feature_columns, const LinearModelOptions& options)
    : Layer(std::make_shared<Impl>(std::move(feature_columns), options)) {}

Tensor LinearModel::operator()(const data::Columns& features) const {
  impl()->build_once({});
  return static_cast<const Impl&>(*impl()).call(features);
}

}  // namespace tutti::feature_column
