#pragma once

#include <cstdint>
#include <string>

#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/output_mode.h"

namespace tutti::keras::layers {

struct CategoryEncodingOptions {
  int64_t num_tokens = 0;                          // required
  OutputMode output_mode = OutputMode::multi_hot;  // or one_hot or count
  std::string name = {};
};

// Categories, numbered from 0 to num_tokens - 1, as columns.
// Shapes: x [...] of an integer dtype gives [..., num_tokens] for one_hot, where an axis of size 1 gives way to it; in
//   the other modes the last axis is a sample and becomes num_tokens.
// Dtype:  float32. No gradient. Throws: invalid_argument for another dtype, or a number that is no category.
// TF: tf.keras.layers.CategoryEncoding
class CategoryEncoding : public Layer {
 public:
  explicit CategoryEncoding(const CategoryEncodingOptions& options);

  using Layer::operator();
  // For count: each category counts as much as its weight, which has the shape of x.
  // Dtype: that of the weights. Grad: flows to the weights. Throws: invalid_argument.
  Tensor operator()(const Tensor& x, const Tensor& count_weights) const;

 private:
  class Impl;
  Impl& state() const;
};

}  // namespace tutti::keras::layers
