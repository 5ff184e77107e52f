#pragma once

#include <string>
#include <vector>

#include "tutti/feature_column/embedding_lookup.h"
#include "tutti/feature_column/feature_column.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::feature_column {

struct LinearModelOptions {
  int64_t units = 1;
  Combiner sparse_combiner = Combiner::sum;  // of the categories of one example
  bool trainable = true;
  std::string name = {};
};

// The weighted sum of all that the columns give, and a bias: float32 [batch, units]. A column of categories has a
// weight for each bucket, without going through numbers; all begin as 0. Weights: "age/weights" [elements or buckets,
// units] by column, and "bias_weights" [units].
// Throws: invalid_argument for columns of sequences, or two of one name. TF: tf.compat.v1.feature_column.linear_model
class LinearModel : public keras::layers::Layer {
 public:
  explicit LinearModel(std::vector<FeatureColumn> feature_columns, const LinearModelOptions& options = {});

  using Layer::operator();
  Tensor operator()(const data::Columns& features) const;

 private:
  class Impl;
};

}  // namespace tutti::feature_column
