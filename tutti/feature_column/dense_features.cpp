#include "tutti/feature_column/dense_features.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include "tutti/core/str.h"
#include "tutti/feature_column/column_tables_internal.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"

namespace tutti::keras::layers {
namespace {

using feature_column::ColumnTables;
using feature_column::EmbeddingTable;
using feature_column::FeatureColumn;

class ColumnsImpl : public LayerImpl {
 public:
  ColumnsImpl(const char* type, std::vector<FeatureColumn> columns, const DenseFeaturesOptions& options,
              bool of_sequences)
      : LayerImpl(type, options.name), columns_(sorted_columns(std::move(columns), name())) {
    set_trainable(options.trainable);
    if (columns_.empty()) refuse("there are no feature columns");
    for (const FeatureColumn& column : columns_) {
      if (!column->is_dense()) (void)column->variable_shape();  // which throws
      if (column->is_sequence() != of_sequences)
        column->refuse(of_sequences ? "is no column of sequences; DenseFeatures takes it"
                                    : "is a column of sequences; SequenceFeatures takes it");
    }
  }

  void build_all(const std::vector<Shape>&) override {
    tables_.build(columns_, [this](const std::string& name, const EmbeddingTable& table) {
      return add_weight(name, {table.num_rows, table.dimension},
                        {.initializer = table.initializer, .trainable = table.trainable});
    });
  }

  const std::vector<FeatureColumn>& columns() const { return columns_; }
  Tensor dense(const FeatureColumn& column, const data::Columns& features) const {
    return column->dense(features, tables_.of(column));
  }

 private:
  std::vector<FeatureColumn> columns_;
  ColumnTables tables_;
};

}  // namespace

class DenseFeatures::Impl : public ColumnsImpl {
 public:
  Impl(std::vector<FeatureColumn> columns, const DenseFeaturesOptions& options)
      : ColumnsImpl("DenseFeatures", std::move(columns), options, /*of_sequences=*/false) {}

  Tensor call(const data::Columns& features) const {
    std::vector<Tensor> parts;
    for (const FeatureColumn& column : columns()) parts.push_back(dense(column, features).flatten(1));
    return at::cat(parts, 1);
  }
};

DenseFeatures::DenseFeatures(std::vector<FeatureColumn> feature_columns, const DenseFeaturesOptions& options)
    : Layer(std::make_shared<Impl>(std::move(feature_columns), options)) {}

Tensor DenseFeatures::operator()(const data::Columns& features) const {
  impl()->build_once({});
  return static_cast<const Impl&>(*impl()).call(features);
}

class SequenceFeatures::Impl : public ColumnsImpl {
 public:
  Impl(std::vector<FeatureColumn> columns, const DenseFeaturesOptions& options)
      : ColumnsImpl("SequenceFeatures", std::move(columns), options, /*of_sequences=*/true) {}

  std::pair<Tensor, Tensor> call(const data::Columns& features) const {
    std::vector<Tensor> parts;
    const Tensor lengths = columns()[0]->sequence_lengths(features);
    for (const FeatureColumn& column : columns()) {
      parts.push_back(dense(column, features).flatten(2));
      if (parts.size() == 1) continue;
      const Tensor own = column->sequence_lengths(features);
      if (StepRecorder::current())
        parts.back() = fitted(parts.back(), parts[0], own != lengths);
      else if (!at::equal(own, lengths))
        column->refuse(str("its sequences have other lengths than those of '", columns()[0].name(), '\''));
    }
    return {at::cat(parts, 2), lengths};
  }

 private:
  // In a program that is saved each column has a number of steps of its own, and only requests tell that they are the
  // same: the steps are chosen by those of the first column, and lengths that differ are places that index_select
  // refuses.
  static Tensor fitted(const Tensor& part, const Tensor& first, const Tensor& differ) {
    const auto ones = [](const Tensor& steps) { return at::ones_like(steps.select(2, 0).sum(0), at::kLong); };
    const Tensor step = ones(first).cumsum(0) - 1, last = ones(part).sum() - 1;
    const Tensor zero = at::zeros({1}, at::kLong).index_select(0, differ.any().to(at::kLong).view({1}));
    return part.index_select(1, at::minimum(step, last) + zero);
  }
};

SequenceFeatures::SequenceFeatures(std::vector<FeatureColumn> feature_columns, const DenseFeaturesOptions& options)
    : Layer(std::make_shared<Impl>(std::move(feature_columns), options)) {}

std::pair<Tensor, Tensor> SequenceFeatures::operator()(const data::Columns& features) const {
  impl()->build_once({});
  return static_cast<const Impl&>(*impl()).call(features);
}

}  // namespace tutti::keras::layers
