#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/feature_column/feature_column.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct DenseFeaturesOptions {
  bool trainable = true;
  std::string name = {};
};

// Features by name as one tensor, float32 [batch, n]: the columns in the order of their names, each flattened. The
// tables of embedding columns are its weights.
// Throws: invalid_argument for a column of categories or of sequences, or two of one name; what the columns throw.
// TF: tf.keras.layers.DenseFeatures
class DenseFeatures : public Layer {
 public:
  explicit DenseFeatures(std::vector<feature_column::FeatureColumn> feature_columns,
                         const DenseFeaturesOptions& options = {});

  using Layer::operator();
  Tensor operator()(const data::Columns& features) const;

 private:
  class Impl;
};

// The same of columns of sequences: float32 [batch, steps, n], and how many steps each example has, int64 [batch].
// Throws: invalid_argument for a column of another kind, or of another number of steps.
// TF: tf.keras.experimental.SequenceFeatures
class SequenceFeatures : public Layer {
 public:
  explicit SequenceFeatures(std::vector<feature_column::FeatureColumn> feature_columns,
                            const DenseFeaturesOptions& options = {});

  using Layer::operator();
  std::pair<Tensor, Tensor> operator()(const data::Columns& features) const;

 private:
  class Impl;
};

}  // namespace tutti::keras::layers
